"""Transactional ids, one of them, and transactions that no coordinator will end."""

from typing import Final

from twisted_kafka.console.queries.transactions import OLD_MINUTES, hanging, transaction, transactions
from twisted_kafka.console.web.call import Call, Page
from twisted_kafka.console.web.pages.lists import asked, needed

STATES: Final = ("", "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
_COLUMNS: Final = ("name", "state", "producer_id")
_MINUTE_MS: Final = 60_000


def show_list(call: Call) -> Page:
    """Show a page of the list."""
    rows, state = asked(call, _COLUMNS), call.choice("state", STATES)
    page = transactions(call.session, rows, states=(state,) if state else ())
    values = {"title": "Transactions", "page": page, "sort": rows.sort, "state": state, "states": STATES}
    return Page("transactions.html", values, is_live=True)


def show(call: Call) -> Page:
    """Show one transactional id."""
    name = needed(call, "name")
    return Page("transaction.html", {"title": name, "each": transaction(call.session, name)}, is_live=True)


def show_hanging(call: Call) -> Page:
    """Search all partitions, or those of a topic, for transactions that hang."""
    topic = call.query.get("topic", "")
    minutes = call.number("minutes", int(OLD_MINUTES), 0, 100_000)
    before_ms = call.context.clock.wall_ms() - minutes * _MINUTE_MS
    found = hanging(call.session, [topic] if topic else [], before_ms, call.context.live.may_have_open)
    return Page("hanging.html", {"title": "Hanging transactions", "found": found, "topic": topic, "minutes": minutes})
