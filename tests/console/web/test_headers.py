"""OWASP's lists of headers and checks, by name: what goes missing fails here (docs/security.md, The console)."""

import re
from pathlib import Path

import pytest

from tests.console.web.served import SASL, Answer, Served
from twisted_kafka.console.web.call import Call, Page
from twisted_kafka.console.web.routes import GETS

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "security.md").read_text()
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types console"
)
EVERYWHERE = {
    "content-security-policy": POLICY,
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-dns-prefetch-control": "off",
    "x-frame-options": "DENY",
    "x-permitted-cross-domain-policies": "none",
}
SOMETIMES = {"cache-control", "clear-site-data", "strict-transport-security"}
NEVER = {"server", "x-powered-by", "x-aspnet-version", "via"}


@pytest.fixture(autouse=True)
def first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first page without a broker."""

    def show(call: Call) -> Page:
        if call.text("line") == "fails":
            raise RuntimeError
        return Page("problem.html", {"title": "First", "line": "a line", "status": 200})

    monkeypatch.setitem(GETS, "/", show)


def answers() -> dict[str, Answer]:
    """An answer of each kind."""
    served, guarded = Served(), Served(SASL)
    return {
        "page": served.get("/"),
        "missing": served.get("/none"),
        "failed": served.get("/?line=fails"),
        "file": served.get("/static/console.css"),
        "missing file": served.get("/static/none"),
        "missing part": served.get("/live?at=/none"),
        "foreign host": served.get("/", host="evil.example"),
        "foreign origin": served.get("/", origin="http://evil.example"),
        "method": served.get("/", method="DELETE"),
        "long address": served.get("/?" + "x" * 33_000),
        "longer address": served.get("/?" + "x" * 99_000),
        "form": guarded.get("/login"),
        "redirect": guarded.get("/"),
        "wrong password": guarded.log_in("alice", "wrong"),
        "login": guarded.log_in(),
        "without a login": Served(SASL).get("/live?at=/"),
    }


@pytest.mark.medium
def test_every_kind_of_answer_has_every_header() -> None:
    found = answers()
    assert [each.status for each in found.values()] == [
        200,
        404,
        500,
        200,
        404,
        404,
        421,
        403,
        405,
        414,
        414,
        200,
        303,
        401,
        303,
        401,
    ]
    for kind, answer in found.items():
        assert {name: answer.headers.get(name) for name in EVERYWHERE} == EVERYWHERE, kind
        assert not NEVER & answer.headers.keys(), kind
        stored = "public, max-age=31536000, immutable" if kind == "file" else "no-store"
        assert answer.headers["cache-control"] == stored, kind
        assert ("strict-transport-security" in answer.headers) is False, kind


def test_tls_and_a_logout_have_one_more() -> None:
    assert (
        Served({"console.listener": "https://127.0.0.1:8080"}).get("/").headers["strict-transport-security"] == "max-age=31536000"
    )
    served = Served(SASL)
    served.log_in()
    assert served.post("/logout", {"token": served.get("/").token}).headers["clear-site-data"] == '"cache", "cookies", "storage"'


def test_the_document_goes_through_the_list_of_headers() -> None:
    listed = {name.lower() for name in re.findall(r"^\| `([A-Za-z-]+)` \|", DOCUMENT, re.MULTILINE)}
    assert listed == EVERYWHERE.keys() | SOMETIMES | {"server"}


CHECKS = {
    "passwords, sessions and changes on the network": "test_passwords_and_changes_do_not_cross_a_network_in_clear_text",
    "users without rights": "test_a_user_without_rights_changes_nothing",
    "passwords in pages, addresses and logs": "test_a_password_is_in_no_text_of_its_action",
    "changes by mistake": "test_the_console_is_read_only_unless_a_setting_says_otherwise",
    "stolen or fixed sessions": "test_a_login_makes_a_new_session_and_the_server_keeps_no_token",
    "guessed passwords": "test_guessing_slows_down_and_the_right_password_waits_too",
    "forged requests (CSRF, login too)": "test_a_change_needs_the_token_of_its_own_browser",
    "DNS rebinding": "test_a_name_that_was_rebound_to_this_machine_reaches_nothing",
    "scripts in names and messages (XSS)": "test_hostile_text_is_text",
    "text that deceives": "test_hostile_texts_stay_texts",
    "clickjacking, and reading across origins": "test_every_kind_of_answer_has_every_header",
    "traces in caches and elsewhere": "test_every_kind_of_answer_has_every_header",
    "redirects to other sites": "test_a_login_leads_to_no_other_site",
    "floods": "test_requests_under_way_are_bounded_for_all_and_for_each_user",
}
"""The rows of the document's table of threats, each with one of the tests that try it."""


def test_each_threat_of_the_document_has_a_test() -> None:
    table = DOCUMENT.partition("\n## The console\n")[2].partition("| threat | defence |\n|---|---|\n")[2].partition("\n\n")[0]
    assert {row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()} == CHECKS.keys()
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "console").rglob("test_*.py"))
    assert [name for name in CHECKS.values() if f"def {name}(" not in tests] == []
