"""Users and their rights: a login with a SCRAM password, and pages and changes as ACLs allow."""

from collections.abc import Iterator

import pytest

from tests.console.web.browsing import Browser
from tests.support.eventually import eventually
from tests.support.network_fakes import lines_of
from twisted_kafka.console.web.routes import GETS
from twisted_kafka.testing import Broker

PASSWORD = "a password"


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:root",
        "console.listener": "127.0.0.1:0",
        "console.write.enable": True,
    }
    with Broker(settings) as broker:
        broker.create_topic("payments", 1)
        broker.create_topic("secrets", 1)
        broker.produce("secrets", b"a secret value", partition=0)
        broker.produce("payments", b"a payment", partition=0)
        for user in ("alice", "root"):
            broker.add_user(user, PASSWORD)
        broker.allow("alice", "Read", topic="payments")
        broker.commit("hidden-group", {("secrets", 0): 0})
        yield broker


def logged_in(kafka: Broker, user: str) -> Browser:
    browser = Browser(kafka.embedded.console_url)
    answer = browser.post("/login", user=user, password=PASSWORD, to="/topics")
    assert (answer.status, answer.location) == (303, "/topics")
    return browser


@pytest.fixture
def alice(kafka: Broker) -> Browser:
    return logged_in(kafka, "alice")


@pytest.mark.medium
def test_nobody_sees_anything_without_a_login(kafka: Broker) -> None:
    for path in sorted(GETS):
        shown = Browser(kafka.embedded.console_url).get(path)
        assert (shown.status, path) in ((303, path), (200, "/login"))
        assert "payments" not in shown.body


def test_a_user_sees_the_topics_of_the_acls(alice: Browser) -> None:
    text = alice.get("/topics?internal=1").text
    assert "payments" in text
    assert "secrets" not in text
    assert "a payment" in alice.get("/messages?topic=payments").text
    assert "hidden-group" not in alice.get("/groups").text


@pytest.mark.parametrize(
    "path",
    [
        "/topic?name=secrets",
        "/messages?topic=secrets",
        "/message?topic=secrets&partition=0&offset=0",
        "/tail?topic=secrets",
        "/group?name=hidden-group",
        "/requests",
        "/request?number=1",
        "/clients",
        "/threads",
        "/logged",
        "/report-page",
        "/users",
        "/acls",
        "/quotas",
        "/check?user=root&operation=Read&kind=Topic&name=secrets",
        "/broker?id=1001",
    ],
)
def test_a_user_sees_nothing_else(alice: Browser, path: str) -> None:
    shown = alice.get(path)
    assert shown.status in (403, 404, 409)
    assert "a secret value" not in shown.body
    assert "super.users" not in shown.body


@pytest.mark.medium
def test_pages_of_the_cluster_show_what_there_is_to_show(alice: Browser) -> None:
    for path in ("/", "/cluster", "/storage", "/report", "/transactions", "/hanging"):
        shown = alice.get(path)
        assert shown.status == (403 if path == "/storage" else 200), path
        assert "secrets" not in shown.body
    assert "This broker, per second" not in alice.get("/").text


@pytest.mark.parametrize(
    "form",
    [
        {"action": "create-topic", "topic": "mine"},
        {"action": "add-partitions", "topic": "payments", "count": "9"},
        {"action": "delete-topic", "topic": "payments"},
        {"action": "change-setting", "kind": "topic", "name": "payments", "key": "retention.ms", "value": "1"},
        {"action": "produce", "topic": "payments", "value": "v"},
        {"action": "reset-offsets", "group": "g", "to": "earliest", "topics": "payments"},
        {"action": "delete-group", "group": "hidden-group"},
        {"action": "set-password", "user": "root", "password": "taken over"},
        {"action": "delete-user", "user": "root"},
        {"action": "add-acl", "principal": "alice", "operation": "All", "resource_type": "Topic", "name": "*"},
        {"action": "set-quota", "user": "root", "key": "producer_byte_rate", "value": "1"},
    ],
)
def test_a_user_without_rights_changes_nothing(kafka: Broker, alice: Browser, form: dict[str, str]) -> None:
    shown = alice.post("/change", step="do", **form)
    assert shown.status in (403, 404, 409)
    assert "taken over" not in shown.body
    assert sorted(each for each in kafka.topics() if not each.startswith("__")) == ["payments", "secrets"]
    assert kafka.partitions("payments") == [0]
    assert [each.value for each in kafka.records("payments")] == [b"a payment"]
    assert "hidden-group" in kafka.groups()
    assert "secrets" not in alice.get("/topics").text
    assert "0 quotas" in logged_in(kafka, "root").get("/quotas").text  # root's password is what it was


@pytest.mark.medium
def test_a_super_user_sees_and_changes_all(kafka: Broker) -> None:
    root = logged_in(kafka, "root")
    assert "secrets" in root.get("/topics").text
    assert "is one of super.users" in root.get("/check?user=root&operation=Read&kind=Topic&name=secrets").text
    why = root.get("/check?user=alice&operation=Write&kind=Topic&name=payments").text
    assert "no entry allows User:alice Write" in why
    assert "twisted-kafka acls create" in why
    assert "alice" in root.get("/users").text
    assert root.post("/change", step="do", action="create-topic", topic="by-root").status == 303
    kafka.delete_topic("by-root")


@pytest.mark.parametrize("key", ["listener.name.plaintext.ssl.keystore.password", "unknown.password"])
def test_no_secret_setting_is_in_the_log(kafka: Broker, key: str) -> None:
    root = logged_in(kafka, "root")
    change = {"step": "do", "action": "change-setting", "kind": "broker", "name": "nobody", "key": key, "value": PASSWORD}
    lines = lines_of(lambda: root.post("/change", **change))
    assert any(f"key={key}, value=(hidden)" in each for each in lines)
    assert not any(PASSWORD in each for each in lines)


@pytest.mark.medium
def test_the_life_of_a_user_with_rights(kafka: Broker) -> None:
    root = logged_in(kafka, "root")
    carol = {"action": "set-password", "user": "carol", "mechanism": "SCRAM-SHA-256"}
    shown = root.post("/change", step="preview", password="typed too early", **carol)
    assert "This will create the user: carol can log in with SCRAM-SHA-256" in shown.text
    assert 'type="password" name="password" required' in shown.body
    assert "typed too early" not in shown.body
    assert root.post("/change", step="do", **carol).status == 400
    lines = lines_of(lambda: done(root, password=PASSWORD, **carol))
    assert any("changed: set-password user=carol, mechanism=SCRAM-SHA-256" in each for each in lines)
    assert not any(PASSWORD in each for each in lines)
    kafka.embedded.apply_config_changes(10)  # logins know the password from then on
    its = logged_in(kafka, "carol")
    entry = {"principal": "carol", "permission": "Allow", "operation": "Read", "resource_type": "Topic", "name": "secrets"}
    link = next(each for each in root.get("/check?user=carol&operation=Read&kind=Topic&name=secrets").links if "add-acl" in each)
    assert root.get(f"{link}&step=preview").status == 200
    done(root, action="add-acl", **entry)
    eventually(lambda: "a secret value" in its.get("/messages?topic=secrets").text)
    delete = next(each for each in root.get("/acls").links if "delete-acl" in each and "carol" in each)
    assert "delete the entry that allows User:carol Read on Topic secrets" in root.get(delete).text
    done(root, action="delete-acl", **{**entry, "principal": "User:carol", "host": "*", "pattern_type": "Literal"})
    eventually(lambda: "secrets" not in its.get("/topics").text)
    done(root, action="set-quota", user="carol", key="consumer_byte_rate", value="1000000")
    eventually(lambda: "consumer_byte_rate" in root.get("/quotas").text)
    done(root, action="set-quota", user="carol", key="consumer_byte_rate", remove="1")
    done(root, action="delete-user", user="carol")
    eventually(lambda: its.get("/topics").location.startswith("/login"))


def done(browser: Browser, **form: str) -> None:
    answer = browser.post("/change", step="do", **form)
    assert answer.status == 303, answer.text


@pytest.mark.medium
def test_two_users_do_not_share_a_live_part(kafka: Broker, alice: Browser) -> None:
    root = logged_in(kafka, "root")
    assert "secrets" in root.first_event("/live?at=/topics")
    assert "secrets" not in alice.first_event("/live?at=/topics")
