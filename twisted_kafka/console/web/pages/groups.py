"""The list of groups of all kinds, and one group."""

from contextlib import suppress
from dataclasses import replace
from typing import Final

from twisted_kafka.console.cluster.groups import SHARE
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.live.live import InFlight
from twisted_kafka.console.queries.groups import GroupDetail, group, groups
from twisted_kafka.console.web.call import Call, Page
from twisted_kafka.console.web.pages.lists import asked, needed

KINDS: Final = ("", "classic", "consumer", "share", "streams")
_COLUMNS: Final = ("name", "kind", "state")


def show_list(call: Call) -> Page:
    """Show a page of the list."""
    rows, kind = asked(call, _COLUMNS), call.choice("kind", KINDS)
    page = groups(call.session, rows, kinds=(kind,) if kind else ())
    highest = max((each.lag or 0 for each in page.items), default=0)
    values = {"title": "Groups", "page": page, "sort": rows.sort, "kind": kind, "kinds": KINDS, "highest": highest}
    return Page("groups.html", values, is_live=True)


def show(call: Call) -> Page:
    """Show one group."""
    name = needed(call, "name")
    found = group(call.session, name)
    highest = max((each.lag or 0 for each in found.partitions), default=0)
    lags = call.context.lags.note(replace(found, group_id=f"{call.viewer.principal}\0{name}"))
    others = call.consoles if found.kind == SHARE else ()
    values = {
        "title": name,
        "group": found,
        "highest": highest,
        "lags": lags,
        "in_flight": _in_flight(call, found),
        "others": others,
    }
    return Page("group.html", values, is_live=True)


def _in_flight(call: Call, found: GroupDetail) -> tuple[InFlight, ...]:
    """Return a share group's records that are not done, to users with Describe on the cluster."""
    if found.kind != SHARE:
        return ()
    with suppress(CommandError):
        return tuple(call.context.live.in_flight(call.session, found.group_id))
    return ()
