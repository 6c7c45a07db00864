"""The console in Chromium: every page in light and dark, narrow and wide; keyboard, live parts, changes, a login."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import twisted_kafka
from tests.console.web.chromium import chromium, page_of, serious_violations
from tests.console.web.shop import guarded_shop, log_in, shop
from tests.support.console import make_topic, session_in, write_in_transaction_of_nobody
from tests.support.ports import free_port
from twisted_kafka.testing import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGES = (
    "/",
    "/topics",
    "/topic?name=payments&settings=all",
    "/messages?topic=payments",
    "/messages?topic=orders",
    "/message?topic=payments.dead-letters&partition=0&offset=0",
    "/tail?topic=payments",
    "/groups",
    "/group?name=billing",
    "/requests",
    "/clients",
    "/threads",
    "/transactions",
    "/hanging",
    "/storage",
    "/users",
    "/acls",
    "/quotas",
    "/check?user=alice&operation=Read&kind=Topic&name=payments",
    "/cluster",
    "/broker?id=1001&settings=all",
    "/report",
    "/change?action=create-topic",
    "/change?action=delete-topic&topic=orders",
    "/change?action=produce&topic=orders",
    "/change?action=reset-offsets&group=billing",
    "/change?action=set-password",
    "/change?action=set-password&user=alice&step=preview",
    "/change?action=add-acl",
    "/change?action=set-quota",
    "/none",
)
GUARDED = (
    "/users",
    "/acls",
    "/quotas",
    "/check?user=alice&operation=Read&kind=Topic&name=payments",
    "/check?user=alice&operation=Read&kind=Topic&name=orders",
    "/change?action=add-acl&principal=alice&operation=Read&resource_type=Topic&name=payments",
    "/change?action=set-quota&user=alice&key=consumer_byte_rate&value=1000",
)


LIVE = re.compile("^Live$")

CHANGES = (
    {"action": "create-topic", "topic": "invoices", "partitions": "2"},
    {"action": "add-partitions", "topic": "invoices", "count": "3"},
    {"action": "change-setting", "kind": "topic", "name": "invoices", "key": "retention.ms", "value": "600000"},
    {"action": "produce", "topic": "invoices", "key": "k", "value": "a record", "partition": "0"},
    {"action": "produce", "topic": "invoices", "value": "a letter", "partition": "1", "headers": "__dlq.errors.topic: payments"},
    {"action": "resend", "topic": "invoices", "partition": "1", "offset": "0"},
    {"action": "reset-offsets", "group": "audit", "to": "earliest", "topics": "invoices"},
    {"action": "delete-group", "group": "audit"},
    {"action": "add-acl", "principal": "alice", "operation": "Read", "resource_type": "Topic", "name": "invoices"},
    {"action": "set-quota", "user": "alice", "key": "producer_byte_rate", "value": "1024"},
    {"action": "set-quota", "user": "alice", "key": "producer_byte_rate", "remove": "1"},
    {"action": "delete-user", "user": "web-shop"},
    {"action": "delete-topic", "topic": "invoices"},
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with shop() as broker:
        yield broker


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_every_page_is_accessible_and_fits(kafka: Broker, browser: Any, scheme: str, width: int) -> None:
    with page_of(browser, kafka.embedded.console_url, scheme, width) as page:
        for path in PAGES:
            page.goto(path)
            assert serious_violations(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_pages_of_users_and_rights_are_accessible_and_fit(browser: Any, scheme: str, width: int) -> None:
    with guarded_shop() as broker, page_of(browser, broker.embedded.console_url, scheme, width) as page:
        log_in(page)
        for path in GUARDED:
            page.goto(path)
            assert serious_violations(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_a_page_is_live_and_stops_when_asked(kafka: Broker, browser: Any) -> None:
    with page_of(browser, kafka.embedded.console_url) as page:
        page.goto("/topics")
        page.wait_for_function("document.getElementById('live-text').textContent === 'Live'")
        kafka.create_topic("born-later", 1)
        page.get_by_role("link", name="born-later").wait_for()
        page.get_by_role("button", name="Pause").click()
        assert page.locator("#live-text").text_content() == "Paused"
        kafka.create_topic("born-last", 1)
        page.get_by_role("button", name="Go on").click()
        page.get_by_role("link", name="born-last").wait_for()


def test_a_tail_shows_new_records_and_none_is_lost_in_a_pause(kafka: Broker, browser: Any) -> None:
    with page_of(browser, kafka.embedded.console_url) as page:
        page.goto("/tail?topic=clicks")
        page.wait_for_function("document.getElementById('live-text').textContent === 'Live'")
        page.wait_for_timeout(3000)  # the first part is the end of the topic
        kafka.produce("clicks", b"first click", partition=0)
        page.get_by_text("first click").wait_for()
        page.get_by_role("button", name="Pause").click()
        kafka.produce("clicks", b"<b>missed</b> click", partition=1)
        page.get_by_role("button", name="Go on").click()
        page.get_by_text("<b>missed</b> click").wait_for()


def test_an_open_page_goes_on_after_a_restart_of_its_broker(browser: Any, tmp_path: Path) -> None:
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}", "console.listener": f"127.0.0.1:{free_port()}"}
    broker = twisted_kafka.Broker(settings, data_dir=tmp_path)
    broker.start()
    with page_of(browser, str(broker.console_url), expected="net::ERR_") as page:
        page.goto("/topics")
        state = page.locator("#live-text")
        state.filter(has_text=LIVE).wait_for()
        broker.stop()
        state.filter(has_text="Connecting").wait_for()
        broker = twisted_kafka.Broker(settings, data_dir=tmp_path)
        broker.start()
        try:
            state.filter(has_text=LIVE).wait_for()
            make_topic(session_in(broker), "born-after")
            page.get_by_role("link", name="born-after").wait_for()
        finally:
            broker.stop()


def test_the_keyboard_reaches_everything_and_the_first_stop_skips_the_navigation(kafka: Broker, browser: Any) -> None:
    with page_of(browser, kafka.embedded.console_url) as page:
        page.goto("/groups")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#main"
        page.get_by_label("Name").focus()
        page.keyboard.type("bill")
        page.keyboard.press("Enter")
        page.wait_for_url("**/groups?search=bill**")
        page.get_by_role("link", name="billing").focus()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="billing").wait_for()


def test_a_topic_is_created_and_deleted_with_previews(kafka: Broker, browser: Any) -> None:
    with page_of(browser, kafka.embedded.console_url) as page:
        page.goto("/topics")
        page.get_by_role("link", name="Create a topic").click()
        page.get_by_label("Name").fill("invoices")
        page.get_by_label("Partitions").fill("4")
        page.get_by_role("button", name="Preview").click()
        page.get_by_text("This will create topic invoices").wait_for()
        page.get_by_role("button", name="Create").click()
        page.get_by_text("Topic invoices was created with 4 partitions.").wait_for()
        page.get_by_role("link", name="Delete").click()
        page.get_by_text("The records cannot be restored.").wait_for()
        page.get_by_role("button", name="Delete").click()
        page.get_by_text("Topic invoices was deleted.").wait_for()


def test_a_user_gets_a_password_that_no_page_shows_and_is_deleted(kafka: Broker, browser: Any) -> None:
    with page_of(browser, kafka.embedded.console_url) as page:
        page.goto("/users")
        page.get_by_role("link", name="Add a user").click()
        page.get_by_label("User").fill("carol")
        page.get_by_role("button", name="Preview").click()
        page.get_by_text("This will create the user: carol").wait_for()
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("User").fill("dora")
        page.get_by_role("button", name="Preview").click()
        page.get_by_label("Password").fill("a secret")
        page.get_by_role("button", name="Set the password").click()
        page.get_by_text("Dora can log in with SCRAM-SHA-512.").wait_for()
        assert "a secret" not in page.content()
        page.get_by_role("row", name="dora").get_by_role("link", name="Delete").click()
        page.get_by_role("button", name="Delete").click()
        page.get_by_text("Dora has no password for SCRAM-SHA-512 any more.").wait_for()


def test_a_hanging_transaction_is_aborted(browser: Any) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "console.listener": "127.0.0.1:0",
        "console.write.enable": True,
        "transaction.partition.verification.enable": False,
    }
    with Broker(settings) as broker, page_of(browser, broker.embedded.console_url) as page:
        session = session_in(broker.embedded)
        make_topic(session, "payments")
        write_in_transaction_of_nobody(session, "payments")
        page.goto("/transactions")
        page.get_by_role("link", name="Hanging transactions").click()
        page.get_by_label("Without a record for (minutes)").fill("0")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("row", name="payments").get_by_role("link", name="Abort").click()
        page.get_by_text("This will abort the transaction of producer 4711 from offset 0 of payments-0 on").wait_for()
        page.locator("button[value=do]").click()
        page.get_by_text("Aborted the transaction from offset 0 of payments-0 on.").wait_for()
        page.goto("/hanging?minutes=0")
        page.get_by_text("No transaction hangs.").wait_for()


def test_every_other_change_is_made_after_its_preview(browser: Any) -> None:
    with guarded_shop() as broker, page_of(browser, broker.embedded.console_url) as page:
        log_in(page)
        for fields in CHANGES:
            page.goto(f"/change?{urlencode(fields)}")
            if page.locator("button[value=preview]").count():
                page.locator("button[value=preview]").click()
            page.get_by_text("This will").wait_for()
            page.locator("button[value=do]").click()
            page.locator("p.notice").wait_for()
            assert page.locator(".problem").count() == 0, fields
        page.goto("/acls")
        page.get_by_role("row", name="deny").get_by_role("link", name="Delete").click()
        page.locator("button[value=do]").click()
        page.locator("p.notice").wait_for()
        assert page.get_by_role("row", name="deny").count() == 0


def test_hostile_texts_stay_texts(kafka: Broker, browser: Any) -> None:
    with page_of(browser, kafka.embedded.console_url) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.goto("/messages?topic=orders")
        page.get_by_text("<script>alert(1)</script>").wait_for()
        page.get_by_text("\\u202egnp.exe").wait_for()


def test_pages_work_without_scripts(kafka: Broker, browser: Any) -> None:
    context = browser.new_context(base_url=kafka.embedded.console_url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/topics?search=pay")
    page.get_by_role("link", name="payments", exact=True).click()
    page.get_by_role("heading", name="payments").wait_for()
    context.close()
