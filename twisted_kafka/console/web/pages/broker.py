"""What only this broker knows: requests as they pass, clients, threads."""

import json
from typing import Any, Final

from twisted_kafka.console.live.request_row import PHASES
from twisted_kafka.console.live.requests import RequestFilter
from twisted_kafka.console.web.call import Call, Page
from twisted_kafka.console.web.pages.lists import asked

COUNTS: Final = (100, 250, 500)
_CLIENT_COLUMNS: Final = ("name", "connections", "software", "idle_s")


def show_requests(call: Call) -> Page:
    """Show the latest requests. The broker keeps requests from the first look on, for as long as somebody looks."""
    wanted = RequestFilter(
        call.text("api"), call.text("client"), call.text("about"), call.text("errors") == "1", call.number("slower", 0, 0, 10**9)
    )
    count = call.number("count", COUNTS[0], 1, COUNTS[-1])
    found = call.context.live.requests(call.session, wanted, count)
    values = {
        "title": "Requests",
        "rows": found,
        "left_out": call.context.live.left_out,
        "count": count,
        "counts": COUNTS,
        "others": call.consoles,
    }
    return Page("requests.html", values, is_live=True)


def show_request(call: Call) -> Page:
    """Show one request with its decoded messages."""
    found = call.context.live.request(call.session, call.number("number", 0))
    phases = [(name.replace("_", " "), us) for name, us in zip(PHASES, found.row.phases_us, strict=True)]
    values = {"title": f"Request {found.row.number}", "found": found, "row": found.row, "phases": phases[:-1]}
    return Page("request.html", {**values, "request": _text(found.request), "response": _text(found.response)})


def show_clients(call: Call) -> Page:
    """Show the clients that are connected to this broker."""
    rows = asked(call, _CLIENT_COLUMNS)
    page = call.context.live.clients(call.session, rows)
    return Page("clients.html", {"title": "Clients", "page": page, "sort": rows.sort, "others": call.consoles}, is_live=True)


def show_threads(call: Call) -> Page:
    """Show the threads of the broker's process."""
    threads = call.context.live.threads(call.session)
    highest = max((each.cpu_s or 0 for each in threads), default=0)
    return Page("threads.html", {"title": "Threads", "threads": threads, "highest": highest, "others": call.consoles}, is_live=True)


def _text(message: Any) -> str:
    return message if isinstance(message, str) else json.dumps(message, indent=2, ensure_ascii=False)
