"""Findings about the cluster and its clients, the access log, and the Spark report of it."""

from pathlib import Path
from typing import Final

from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.live.live import check
from twisted_kafka.console.queries.logged import LogFilter, logged
from twisted_kafka.console.web.call import Call, Document, NotFoundError, Page, Redirect
from twisted_kafka.console.web.report_run import HOURS

COUNTS: Final = (100, 250, 500)
_POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'"
"""The report is a page of its own with its styles in it. It runs no script, and has no rights of the console's origin."""


def show(call: Call) -> Page:
    """Show all findings, and the state of the report."""
    runs = call.context.reports
    values = {
        "title": "Report",
        "findings": call.context.findings(call.viewer.principal, call.session),
        "hours": HOURS,
        "why_not": runs.why_not,
    }
    try:
        check(call.session)
    except CommandError as error:
        return Page("report.html", {**values, "state": None, "why_not": str(error)}, is_live=True)
    return Page("report.html", {**values, "state": runs.state()}, is_live=True)


def make(call: Call) -> Redirect:
    """Start the report."""
    check(call.session)
    text = call.form.get("hours", "")
    hours = int(text) if text in map(str, HOURS) else HOURS[0]
    return Redirect("/report", call.context.reports.start(hours))


def show_page(call: Call) -> Document:
    """Show the latest report."""
    check(call.session)
    page = call.context.reports.page()
    if page is None:
        raise NotFoundError("There is no report. Make one on the page Report.")
    return Document(page, {"content-security-policy": _POLICY})


def show_logged(call: Call) -> Page:
    """Show lines of the access log, the latest first."""
    check(call.session)
    directory = call.context.settings.access_log_directory
    wanted = LogFilter(
        call.text("api"),
        call.text("user"),
        call.text("client"),
        call.text("about"),
        call.text("errors") == "1",
        call.number("slower", 0, 0, 10**9),
        call.text("before"),
    )
    count = call.number("count", COUNTS[0], 1, COUNTS[-1])
    found = None if directory is None else logged(Path(directory), call.context.clock, wanted, count)
    return Page("logged.html", {"title": "Requests", "found": found, "counts": COUNTS, "count": count})
