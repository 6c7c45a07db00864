"""A newcomer's ten tasks in the console, each in at most four clicks, and one more to confirm a change (docs/console.md)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.console.web.chromium import chromium, page_of
from tests.support.eventually import eventually
from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.testing import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOST_CLICKS = 4


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = str(tmp_path_factory.mktemp("log"))
    with Broker(
        console_listener="127.0.0.1:0",
        console_write_enable=True,
        auto_create_topics_enable=False,
        access_log_dir=directory,
        access_log_write_interval_ms=50,
    ) as broker:
        for name in ("payments", "orders", "doomed"):
            broker.create_topic(name, 2)
        for number in range(20):
            broker.produce("payments", b'{"customer":{"id":%d}}' % number, key=b"customer-%d" % number, partition=number % 2)
        broker.commit("billing", {("payments", 0): 4, ("payments", 1): 9})
        yield broker


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


class Newcomer:
    """Counts clicks. Typing is free, and so is looking."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0

    def click(self, role: str, name: str, *, exact: bool = False) -> None:
        self.clicks += 1
        assert self.clicks <= MOST_CLICKS
        self.page.get_by_role(role, name=name, exact=exact).first.click()

    def section(self, name: str) -> None:
        self.clicks += 1
        self.page.get_by_role("navigation").first.get_by_role("link", name=name, exact=True).click()

    def confirm(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def type(self, label: str, text: str) -> None:
        self.page.get_by_label(label).first.fill(text)

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for()


@pytest.fixture
def newcomer(kafka: Broker, browser: Any) -> Iterator[Newcomer]:
    with page_of(browser, kafka.embedded.console_url) as page:
        page.goto("/")
        yield Newcomer(page)


def test_is_the_cluster_well(newcomer: Newcomer) -> None:
    newcomer.section("Cluster")
    newcomer.sees("1001")


def test_find_a_message_by_its_key(newcomer: Newcomer) -> None:
    newcomer.section("Topics")
    newcomer.click("link", "payments", exact=True)
    newcomer.click("link", "Messages", exact=True)
    newcomer.type("Key", "customer-7")
    newcomer.click("button", "Search")
    newcomer.sees('{"customer":{"id":7}}')
    assert newcomer.page.locator("table.messages tbody tr").count() == 1


def test_find_messages_by_a_text(newcomer: Newcomer) -> None:
    newcomer.section("Topics")
    newcomer.click("link", "payments", exact=True)
    newcomer.click("link", "Messages", exact=True)
    newcomer.type("Text", '"id":19')
    newcomer.click("button", "Search")
    newcomer.sees("customer-19")


def test_who_lags(newcomer: Newcomer) -> None:
    newcomer.section("Groups")
    newcomer.click("link", "billing")
    newcomer.sees("Nobody reads")


def test_reset_a_group(newcomer: Newcomer, kafka: Broker) -> None:
    newcomer.section("Groups")
    newcomer.click("link", "billing")
    newcomer.click("link", "Reset offsets")
    newcomer.page.get_by_label("To").first.select_option("latest")
    newcomer.click("button", "Preview")
    newcomer.sees("will not be read")
    newcomer.page.locator("button[value=do]").click()
    newcomer.sees("set 2 offsets of group billing".capitalize())


def test_add_a_partition(newcomer: Newcomer) -> None:
    newcomer.section("Topics")
    newcomer.click("link", "orders", exact=True)
    newcomer.click("link", "Add partitions")
    newcomer.click("button", "Preview")
    newcomer.sees("cannot be lowered later")
    newcomer.page.locator("button[value=do]").click()
    newcomer.sees("Topic orders has 3 partitions")


def test_why_is_a_client_refused(newcomer: Newcomer, kafka: Broker) -> None:
    newcomer.section("Requests")
    newcomer.sees("The latest requests")
    ask(kafka, "a-mistake")
    newcomer.clicks += 1
    newcomer.page.get_by_label("Only errors").check()
    newcomer.click("button", "Show", exact=True)
    newcomer.sees("UNKNOWN_TOPIC_OR_PARTITION")
    newcomer.sees("newcomer-test")


def test_which_client_is_oldest(newcomer: Newcomer, kafka: Broker) -> None:
    with connection(kafka):
        newcomer.section("Clients")
        newcomer.click("link", "Software")
        newcomer.sees("newcomer-test")
        newcomer.page.locator("[aria-sort=ascending]").wait_for()


def test_who_deleted_a_topic(newcomer: Newcomer, kafka: Broker) -> None:
    kafka.delete_topic("doomed")
    log = Path(kafka.embedded.config.string("access.log.dir"))
    eventually(lambda: any("DeleteTopics" in each.read_text() for each in log.rglob("*.jsonl")))
    newcomer.section("Requests")
    newcomer.click("link", "In the access log")
    newcomer.type("Topic, group, resource", "doomed")
    newcomer.type("API", "DeleteTopics")
    newcomer.click("button", "Search")
    newcomer.page.get_by_role("cell", name="User:ANONYMOUS").first.wait_for()


def test_what_does_a_setting_mean(newcomer: Newcomer) -> None:
    newcomer.section("Topics")
    newcomer.click("link", "payments", exact=True)
    newcomer.clicks += 1
    newcomer.page.get_by_role("link", name=re.compile(r"^Show \d+")).click()
    newcomer.clicks += 1
    newcomer.page.locator("summary", has_text="retention.ms").first.click()
    newcomer.page.locator("details[open]").first.wait_for()
    assert newcomer.clicks <= MOST_CLICKS


def test_may_alice_read_payments(newcomer: Newcomer) -> None:
    newcomer.section("Access")
    newcomer.click("link", "Who may do what?")
    newcomer.type("May user", "alice")
    newcomer.type("named", "payments")
    newcomer.click("button", "Why?")
    newcomer.sees("the broker has no authorizer")


@contextmanager
def connection(kafka: Broker) -> Iterator[SocketConnection]:
    with SocketConnection(parse_address(kafka.bootstrap_servers), "newcomer-test", 20) as made:
        made.versions(20)
        yield made


def ask(kafka: Broker, topic: str) -> None:
    with connection(kafka) as made:
        made.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False), 9, 20)
