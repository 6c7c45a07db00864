"""Every page of a broker that runs, with and without anything to show."""

from collections.abc import Iterator

import pytest

from tests.console.web.browsing import Browser
from twisted_kafka.console.web.routes import GETS
from twisted_kafka.testing import Broker


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with Broker(console_listener="127.0.0.1:0", console_write_enable=True) as broker:
        broker.create_topic("payments", 3)
        broker.create_topic("orders", 1)
        for number in range(3):
            broker.produce("payments", b'{"id": %d, "amount": 12.5}' % number, key=b"key-%d" % number, partition=0)
        yield broker


@pytest.fixture
def browser(kafka: Broker) -> Browser:
    return Browser(kafka.embedded.console_url)


@pytest.mark.parametrize("path", sorted(GETS))
def test_every_page_is_a_page(browser: Browser, path: str) -> None:
    shown = browser.get(path)
    assert shown.status in (200, 303, 404)
    if shown.status == 200:
        assert shown.body.startswith("<!doctype html>")
        assert shown.body.count("<h1>") == 1


def test_the_overview_counts(browser: Browser) -> None:
    text = browser.get("/").text
    assert "Topics 2" in text
    assert "Partitions 4" in text


def test_the_list_of_topics_is_searched_and_sorted(browser: Browser) -> None:
    assert browser.get("/topics").text.index("orders") < browser.get("/topics").text.index("payments")
    found = browser.get("/topics?search=PAY").text
    assert "1 topic with" in found
    assert "orders" not in found
    by_size = browser.get("/topics?sort=-size_bytes").text
    assert by_size.index("payments") < by_size.index("orders")
    assert browser.get("/topics?sort=none&page=99").status == 200
    assert "No topic has this in its name." in browser.get("/topics?search=%3Cb%3E").text


def test_an_unknown_page_leads_back(browser: Browser) -> None:
    shown = browser.get("/none")
    assert shown.status == 404
    assert "/" in shown.links
