"""Logging in with a SCRAM user of the broker, and logging out."""

import re
from typing import Final

from twisted.logger import Logger

from twisted_kafka.console.web.call import Call, Page, Redirect
from twisted_kafka.system.client_text import bounded_text, printable

MOST_CHARACTERS: Final = 1_024
"""Of a name or a password."""

_PATH: Final = re.compile(r"/[a-z-]*(\?[!-~]*)?")

_log = Logger("kafka.console.audit")


def show(call: Call) -> Page | Redirect:
    """Show the form, unless no user logs in or this one has."""
    if call.viewer.user or not call.context.settings.needs_login:
        return Redirect("/")
    return _form(call, _target(call.query.get("to", "/")))


def log_in(call: Call) -> Page | Redirect:
    """Check the password, and begin a session."""
    context, address = call.context, call.viewer.address
    user, password = call.form.get("user", ""), call.form.get("password", "")
    to = _target(call.form.get("to", "/"))
    if not context.settings.needs_login:
        return Redirect("/")
    if len(user) > MOST_CHARACTERS or len(password) > MOST_CHARACTERS:
        return _form(call, to, "The name or the password is too long.", 400)
    wait_s = context.failed_logins.wait_s(address, user)
    if wait_s:
        return _form(call, to, f"Too many failed attempts. Try again in {wait_s} s.", 429)
    # Counted before the password is compared: attempts at the same time count, too.
    context.failed_logins.note(address, user)
    match = context.passwords.match(user, password)
    if match is None:
        _log.warn("Console: failed login of {user} at {address}", user=printable(bounded_text(user)), address=address)
        return _form(call, to, "The name or the password is wrong.", 401)
    context.failed_logins.forgive(address, user)
    _log.info("Console: {user} logged in at {address}", user=printable(bounded_text(user)), address=address)
    token = context.sessions.begin(user, match.mechanism, match.credential)
    return Redirect(to, cookies=(context.cookie("session", token), context.cookie("browser", "")))


def log_out(call: Call) -> Redirect:
    """End the session."""
    call.context.sessions.end(call.viewer.cookie)
    cookies = (call.context.cookie("session", ""),) if call.viewer.user else ()
    return Redirect("/login", cookies=cookies, headers={"clear-site-data": '"cache", "cookies", "storage"'})


def _form(call: Call, to: str, problem: str = "", status: int = 200) -> Page:
    return Page("login.html", {"title": "Log in", "to": to, "problem": problem, "name": call.form.get("user", "")}, status)


def _target(to: str) -> str:
    """Return a path of this console: nobody is sent elsewhere."""
    return to if _PATH.fullmatch(to) else "/"
