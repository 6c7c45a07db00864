"""The console's rules of safety, each as an attacker would try it (docs/security.md, The console)."""

import gc
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.console.web.served import HOST, SASL, Served
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.console.web import listener, rendering
from twisted_kafka.console.web.call import Call, Page, Redirect
from twisted_kafka.console.web.context import ConsoleSettings
from twisted_kafka.console.web.guard import SECURITY_HEADERS
from twisted_kafka.console.web.pages import overview
from twisted_kafka.console.web.routes import GETS, POSTS
from twisted_kafka.console.web.users import passwords, sessions
from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, KafkaPrincipal

HOSTILE = "<script>alert(1)</script>\"'\u202egpj.exe\x1b[2J\x00\u2028"


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """A first page without a broker, and a change; the calls that reach them."""
    calls: list[Call] = []

    def show(call: Call) -> Page:
        calls.append(call)
        return Page("problem.html", {"title": "First", "line": call.text("line", "a line"), "status": 200})

    def change(call: Call) -> Redirect:
        calls.append(call)
        return Redirect("/", "Changed.")

    monkeypatch.setitem(GETS, "/", show)
    monkeypatch.setitem(POSTS, "/change", change)
    return calls


@pytest.fixture
def served() -> Served:
    return Served()


def writing(**more: str) -> Served:
    return Served({"console.write.enable": "true", **more})


# Headers


def test_scripts_and_styles_come_from_the_console_alone(served: Served) -> None:
    policy = dict(each.split(" ", 1) for each in SECURITY_HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[each] for each in ("script-src", "style-src", "img-src", "connect-src", "form-action")} == {"'self'"}
    assert (policy["base-uri"], policy["frame-ancestors"]) == ("'none'", "'none'")
    assert "unsafe" not in SECURITY_HEADERS["content-security-policy"]


def test_no_template_has_an_inline_script_or_style_or_another_host() -> None:
    folder = Path(listener.__file__).parent
    for path in [*(folder / "templates").iterdir(), *(folder / "static").iterdir()]:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path
        if path.suffix == ".html":
            assert " style=" not in text, path
            assert "<style" not in text, path
            assert " on" not in [each[:3] for each in text.split("=")], path
            assert text.count("<script") == text.count("<script src="), path
            assert "|safe" not in text, path


def test_tls_adds_secure_cookies() -> None:
    served = Served({"console.listener": "https://127.0.0.1:8080"})
    answer = served.get("/")
    assert "; Secure" in answer.headers["set-cookie"]
    assert answer.headers["set-cookie"].startswith("__Host-console-browser-8080=")


# Hosts and origins


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "LOCALHOST.", "127.0.0.1:8080", "[::1]:8080", "192.0.2.1"])
def test_localhost_and_addresses_are_hosts(served: Served, host: str) -> None:
    assert served.get("/", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[evil]", "a b", "::1"],
)
def test_a_name_that_was_rebound_to_this_machine_reaches_nothing(served: Served, host: str, pages: list[Call]) -> None:
    answer = served.get("/", host=host)
    assert answer.status == 421
    assert "console.hosts" in answer.body
    assert not pages


def test_a_request_without_a_host_or_with_two_is_refused(served: Served) -> None:
    assert served.get("/", host="").status == 421
    transport = served.connect()
    transport.protocol.dataReceived(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
    assert transport.answer.status == 421


def test_names_of_the_settings_are_hosts() -> None:
    served = Served({"console.hosts": "console.example", "advertised.listeners": "PLAINTEXT://kafka.example:9092"})
    assert [served.get("/", host=host).status for host in ("console.example", "kafka.example:8080", "other.example")] == [
        200,
        200,
        421,
    ]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://localhost:8080", "http://localhost:3000", "http://localhost"]
)
def test_another_origin_is_refused_for_every_method(origin: str, pages: list[Call]) -> None:
    served = writing()
    token = served.get("/login", host=HOST) and served.context.tokens.token_of(next(iter(served.cookies.values()), ""))
    assert served.get("/", origin=origin).status == 403
    assert served.post("/change", {"token": token}, origin=origin).status == 403
    assert not pages


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_may_only_link_here(served: Served, site: str, pages: list[Call]) -> None:
    def ask(mode: str, dest: str, uri: str = "/") -> int:
        return served.get(uri, sec_fetch_site=site, sec_fetch_mode=mode, sec_fetch_dest=dest).status

    assert ask("no-cors", "image") == 403
    assert ask("cors", "empty") == 403
    assert ask("navigate", "iframe") == 403
    assert ask("no-cors", "script", "/static/console.js") == 403
    assert not pages
    assert ask("navigate", "document") == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_other_methods_are_refused(served: Served, method: str) -> None:
    answer = served.get("/", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")


# Forms


def changed(served: Served, **form: str) -> Any:
    """Open a page, and send the form of a change with its token."""
    cookie = served.get("/") and served.cookies[served.context.cookie_name("browser")]
    return served.post("/change", {"token": served.context.tokens.token_of(cookie), **form})


def test_the_console_is_read_only_unless_a_setting_says_otherwise(served: Served, pages: list[Call]) -> None:
    answer = changed(served)
    assert answer.status == 403
    assert "console.write.enable=true" in answer.body
    assert [call.path for call in pages] == ["/"]


def test_a_change_needs_the_token_of_its_own_browser(pages: list[Call]) -> None:
    served, other = writing(), writing()
    assert changed(served).status == 303
    for token in ("", "0" * 64, changed(other) and other.context.tokens.token_of(next(iter(other.cookies.values()))), "\ud800"):
        served.get("/")
        assert served.post("/change", {"token": token.encode("utf-8", "replace").decode()}).status == 403
    assert [call.path for call in pages].count("/change") == 2


def test_a_post_without_origin_is_refused_unless_the_browser_vouches(pages: list[Call]) -> None:
    served = writing()
    served.get("/")
    token = served.context.tokens.token_of(next(iter(served.cookies.values())))
    assert served.post("/change", {"token": token}, origin="").status == 403
    assert served.post("/change", {"token": token}, origin="", sec_fetch_site="same-origin").status == 303


def test_a_get_changes_nothing() -> None:
    assert writing().get("/change").status == 404


def test_the_notice_of_a_change_is_shown_once_and_to_its_browser_alone() -> None:
    served = writing()
    changed(served)
    cookies, served.cookies = served.cookies, {}
    assert "Changed." not in served.get("/").body
    served.cookies = cookies
    assert "Changed." in served.get("/").body
    assert "Changed." not in served.get("/").body


# Users


def test_every_page_needs_a_login_if_the_broker_has_authentication(pages: list[Call]) -> None:
    served = Served(SASL)
    for path in sorted(GETS):
        answer = served.get(path)
        assert (answer.status, answer.headers.get("location", "").partition("?")[0]) in ((303, "/login"), (200, "")), path
        assert (answer.status == 200) == (path == "/login")
    assert served.get("/live?at=/").status == 401
    assert served.post("/change", {}).status == 303
    assert not pages


def test_a_user_logs_in_and_the_broker_knows_who_asks(pages: list[Call]) -> None:
    served = Served(SASL)
    answer = served.log_in()
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert served.get("/").status == 200
    assert (pages[-1].viewer.principal, pages[-1].viewer.address) == (KafkaPrincipal("User", "alice"), "192.168.1.1")
    assert served.sessions[-1].principal == KafkaPrincipal("User", "alice")
    assert all(session.is_closed for session in served.sessions)


def test_without_authentication_nobody_logs_in(served: Served, pages: list[Call]) -> None:
    assert served.get("/login").headers["location"] == "/"
    served.get("/")
    assert pages[-1].viewer.principal == ANONYMOUS


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("alice", ""), ("nobody", ""), ("", ""), (HOSTILE, HOSTILE)])
def test_a_wrong_password_and_an_unknown_user_look_alike(user: str, password: str) -> None:
    served = Served(SASL)
    answer = served.log_in(user, password)
    assert answer.status == 401
    assert "The name or the password is wrong." in answer.body
    assert served.context.cookie_name("session") not in served.cookies
    assert "<script>" not in answer.body


def test_an_unknown_user_costs_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    monkeypatch.setattr(passwords, "salted_password", lambda *args: rounds.append(args[3]) or b"salted")
    served = Served(SASL)
    for user in ("alice", "nobody"):
        served.log_in(user, "wrong")
    assert rounds[:2] == rounds[2:] == [4096, 4096]


def test_the_cookie_is_for_this_site_alone_and_no_script_sees_it() -> None:
    served = Served(SASL)
    lines = served.log_in().raw.decode("latin-1").split("\r\n")
    session = next(line for line in lines if line.lower().startswith("set-cookie: console-session"))
    assert session.endswith("; Path=/; HttpOnly; SameSite=Lax")


def test_a_login_makes_a_new_session_and_the_server_keeps_no_token() -> None:
    served = Served(SASL)
    served.cookies[served.context.cookie_name("session")] = "chosen by somebody else"
    served.log_in()
    token = served.cookies[served.context.cookie_name("session")]
    assert token != "chosen by somebody else"
    assert len(token) >= 43
    assert token not in repr(served.context.sessions.__dict__)


def test_the_login_form_has_a_token_too() -> None:
    served = Served(SASL)
    served.get("/login")
    assert served.post("/login", {"user": "alice", "password": "alice's password"}).status == 403


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/%0d%0aX: y", "\r\nX: y"]
)
def test_a_login_leads_to_no_other_site(to: str) -> None:
    assert Served(SASL).log_in(to=to).headers["location"] == "/"


def test_a_login_leads_where_the_user_wanted_to_go() -> None:
    served = Served(SASL)
    assert served.get("/topics?search=a%20b&page=2").headers["location"] == "/login?to=%2Ftopics%3Fsearch%3Da%2520b%26page%3D2"
    assert served.log_in(to="/topics?search=a%20b&page=2").headers["location"] == "/topics?search=a%20b&page=2"


def is_in(served: Served) -> bool:
    return served.get("/").status == 200


def test_a_session_ends_without_requests_and_after_twelve_hours() -> None:
    served = Served({**SASL, "console.session.timeout.ms": "3600000"})
    served.log_in()
    served.clock.advance_ms(3_500_000)
    assert is_in(served)
    served.clock.advance_ms(3_601_000)
    assert not is_in(served)
    served.log_in()
    for _ in range(sessions.LIFETIME_MS // 3_500_000):
        served.clock.advance_ms(3_500_000)
        assert is_in(served)
    served.clock.advance_ms(3_500_000)
    assert not is_in(served)


def test_a_session_ends_with_the_users_password_and_with_the_user() -> None:
    served = Served(SASL)
    users, key = served.credentials.users, ("SCRAM-SHA-256", "alice")
    before = users[key]
    for after in (users["SCRAM-SHA-256", "bob"], None):
        served.log_in()
        assert is_in(served)
        users[key] = after
        assert not is_in(served)
        users[key] = before
        assert not is_in(served)


def test_logging_out_ends_the_session_and_clears_the_browser() -> None:
    served = Served(SASL)
    served.log_in()
    cookies = dict(served.cookies)
    assert served.post("/logout", {"token": "wrong"}).status == 403
    assert is_in(served)
    answer = served.post("/logout", {"token": served.get("/").token})
    assert answer.headers["clear-site-data"] == '"cache", "cookies", "storage"'
    served.cookies = cookies
    assert not is_in(served)


def test_sessions_are_bounded() -> None:
    served = Served(SASL)
    first = served.context.sessions.begin("alice", "SCRAM-SHA-256", served.credentials.users["SCRAM-SHA-256", "alice"])
    for _ in range(sessions.MOST_SESSIONS):
        served.context.sessions.begin("bob", "SCRAM-SHA-256", served.credentials.users["SCRAM-SHA-256", "bob"])
    assert served.context.sessions.find(first) is None


@pytest.mark.medium
def test_guessing_slows_down_and_the_right_password_waits_too() -> None:
    served = Served(SASL)
    statuses = [served.log_in("alice", "wrong").status for _ in range(passwords.MOST_OF_ADDRESS + 1)]
    assert statuses == [401] * passwords.MOST_OF_ADDRESS + [429]
    assert served.log_in().status == 429
    served.clock.advance_ms(passwords.PAUSE_OF_ADDRESS_S * 1000)
    assert served.log_in().status == 303


def test_many_addresses_guess_no_faster_and_do_not_lock_a_user_out() -> None:
    served = Served(SASL)
    failed = served.context.failed_logins
    for number in range(passwords.MOST_OF_USER):
        failed.note(f"192.0.2.{number}", "alice")
    assert failed.wait_s("198.51.100.1", "alice") == passwords.PAUSE_OF_USER_S
    assert failed.wait_s("198.51.100.1", "bob") == 0
    for number in range(passwords.MOST_OF_ADDRESS):
        failed.note(f"2001:db8::{number}", f"user-{number}")
    assert failed.wait_s("2001:db8::ffff", "bob") > 0
    assert failed.wait_s("2001:db8:0:1::1", "bob") == 0


def test_known_failures_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MOST_KNOWN", 10)
    failed = passwords.FailedLogins(Served().clock)
    for number in range(100):
        failed.note("192.0.2.1", f"user-{number}")
    assert len(failed._failures) <= 10


# Text


def test_hostile_text_is_text(served: Served) -> None:
    body = served.get("/?line=%3Cscript%3Ealert(1)%3C/script%3E%22%E2%80%AEgpj%1B%5B2J%00%E2%80%A8%EF%BB%BF").body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;\\u202egpj\\x1b[2J\\x00\\u2028\\ufeff" in body
    assert "<script>" not in body
    assert "\u202e" not in body


def test_megabytes_are_cut(served: Served) -> None:
    answer = Served().get(f"/?line={'x' * 7000}")
    assert "x" * 7000 in answer.body
    served.context.notices.put(next(iter(served.get("/") and served.cookies.values())), "y" * 3_000_000)
    body = served.get("/").body
    assert len(body) < 30_000
    assert "(2,980,000 more characters)" in body


@pytest.mark.parametrize("query", ["%", "a=%ff%fe", "&&&=&a", "a=1&" * 1000, "page=9" + "9" * 5000, "line=%ED%A0%80"])
def test_a_strange_query_is_no_error(served: Served, query: str) -> None:
    assert served.get(f"/?{query}").status == 200


def test_a_page_that_fails_tells_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(call: Call) -> Page:
        raise RuntimeError("a secret")

    monkeypatch.setitem(GETS, "/", fail)
    answer = served.get("/")
    assert answer.status == 500
    assert "secret" not in answer.body


@pytest.mark.parametrize("name", ["../context.py", "%2e%2e/context.py", "..%2fcontext.py", ".hidden", "templates/base.html", ""])
def test_static_files_are_those_of_one_folder(served: Served, name: str) -> None:
    assert served.get(f"/static/{name}").status == 404


@pytest.mark.parametrize("name", [f"{'a' * 300}.js", "a%00.js", "\x00.css"])
def test_static_files_have_no_names_that_a_disk_refuses(served: Served, name: str) -> None:
    assert rendering.static_file(name) is None
    assert served.get(f"/static/{'a' * 300}.js").status == 404


@pytest.mark.medium
def test_names_from_the_network_are_not_kept() -> None:
    class Name(str):
        """One that can be watched."""

    name = Name("none.js")
    watched = weakref.ref(name)
    assert rendering.static_file(name) is None
    del name
    gc.collect()
    assert watched() is None


# Limits


def test_long_forms_and_addresses_are_refused(pages: list[Call]) -> None:
    served = writing()
    assert served.post("/change", {"a": "x" * listener.MOST_BODY_BYTES}).status == 413
    assert served.get("/?" + "x" * 33_000).status == 414
    assert served.get("http://localhost/").status == 400
    assert not pages


def test_a_form_of_some_thousand_characters_is_answered(served: Served, pages: list[Call]) -> None:
    """The schema of the values is a field of a form whose fields are in the address."""
    text = "é{" * 2_250
    assert served.get(f"/?{urlencode({'line': text})}").status == 200
    assert pages[0].text("line") == text


def test_a_long_address_of_a_page_that_needs_a_login_leads_to_an_address_that_is_served(pages: list[Call]) -> None:
    served = Served(SASL)
    location = served.get(f"/messages?{urlencode({'topic': 't', 'schema': '{' * 10_000})}").headers["location"]
    assert location == "/login?to=%2Fmessages"
    assert served.get(location).status == 200


def test_an_address_of_any_length_has_an_answer(served: Served, pages: list[Call]) -> None:
    for length in (40_000, listener.MOST_HEAD_BYTES + 10, 1_000_000):
        transport = served.send("GET", "/?" + "x" * length, {"host": HOST})
        assert transport.answer.status == 414
        assert transport.answer.body == "The form's fields, or the address, are longer than 32 KiB\n"
    assert transport.disconnecting
    headers = {"host": HOST, **{f"x-{number}": "x" * 10_000 for number in range(6)}}
    assert served.send("GET", "/", headers).answer.status == 400
    assert not pages


def test_all_bodies_together_are_bounded() -> None:
    served, open_ones = writing(), []
    for _ in range(listener.MOST_BODIES_BYTES // listener.MOST_BODY_BYTES + 2):
        transport = served.connect()
        open_ones.append(transport)
        head = f"POST /change HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {listener.MOST_BODY_BYTES}\r\n\r\n"
        transport.protocol.dataReceived(head.encode() + b"x" * (listener.MOST_BODY_BYTES - 1))
    assert sum(transport.disconnecting for transport in open_ones) >= 1
    for transport in open_ones:
        transport.loseConnection()
    assert served.site.body_bytes == 0


@pytest.mark.medium
def test_connections_are_bounded_and_silent_ones_end() -> None:
    served = Served()
    first = served.connect()
    for _ in range(listener.MOST_CONNECTIONS):
        served.connect()
    assert first.disconnecting
    assert len(served.site.connections) == listener.MOST_CONNECTIONS
    served.reactor.advance(listener.IDLE_S + 1)
    served.reactor.advance(20)
    assert not served.site.connections


def test_a_request_that_comes_byte_by_byte_ends_in_time() -> None:
    served = Served()
    slow = served.connect()
    slow.protocol.dataReceived(b"GET / HTTP/1.1\r\n")
    for number in range(10):
        served.reactor.advance(listener.IDLE_S / 5)
        if not slow.disconnecting:
            slow.protocol.dataReceived(b"a%d: b\r\n" % number)
    assert slow.disconnecting
    assert not served.site.connections


def test_slow_requests_leave_a_place_for_others() -> None:
    served = Served()
    for _ in range(listener.MOST_CONNECTIONS):
        served.connect().protocol.dataReceived(b"GET / HTTP/1.1\r\n")
    assert served.get("/").status == 200


def test_a_length_of_thousands_of_digits_ends_the_connection() -> None:
    served = Served()
    head = {"host": HOST, "Content-Length": "9" * 5_000}
    assert served.send("GET", "/", head).disconnecting
    assert not served.site.connections


def test_requests_under_way_are_bounded_for_all_and_for_each_user() -> None:
    served = Served(SASL)
    served.log_in()
    served.waiting = []
    cookies = served._headers({})
    statuses = [served.send("GET", "/", cookies) for _ in range(8)]
    assert [each.answer.status if each.written() else 0 for each in statuses] == [0] * 6 + [503] * 2
    for run in served.waiting:
        run()
    served.waiting = None
    assert is_in(served)


# Settings


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"console.listener": "8080"}, "must be host:port"),
        ({"console.listener": "ftp://localhost:1"}, "must be host:port"),
        ({"console.listener": "0.0.0.0:8080", "console.write.enable": "true"}, "if console.write.enable is true"),
        ({"console.listener": "http://0.0.0.0:8080", **SASL}, "because users log in"),
        ({"console.listener": ":8080", "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "because users log in"),
    ],
)
def test_passwords_and_changes_do_not_cross_a_network_in_clear_text(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        KafkaConfig.embedded({"listeners": "PLAINTEXT://127.0.0.1:0", **settings})


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "localhost:1", "[::1]:1", "http://127.3.2.1:1/", "https://0.0.0.0:1", "0.0.0.0:1"]
)
def test_addresses_that_are_allowed(address: str) -> None:
    config = KafkaConfig.embedded({"listeners": "PLAINTEXT://127.0.0.1:0", "console.listener": address})
    assert config.console_listener.port == 1


def test_the_first_page_is_a_page() -> None:
    assert callable(overview.show)


@pytest.mark.parametrize(
    ("properties", "part"),
    [
        ({"console.listener": "127.0.0.1:8080"}, ""),
        ({"console.listener": "0.0.0.0:8080"}, "may see everything"),
        ({"console.listener": "https://0.0.0.0:8080", "console.write.enable": "true"}, "may see and change everything"),
        ({"console.listener": "https://0.0.0.0:8080", **SASL}, ""),
    ],
)
def test_an_open_console_without_a_login_has_a_warning(properties: dict[str, str], part: str) -> None:
    warning = ConsoleSettings.of(KafkaConfig.embedded(properties)).warning
    assert part in warning
    assert bool(part) is bool(warning)
