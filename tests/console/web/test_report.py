"""The Spark report on request, with a program that stands for Spark's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.web.browsing import Browser
from tests.support.eventually import eventually
from twisted_kafka.console.web import report_run
from twisted_kafka.testing import Broker

pytestmark = pytest.mark.medium


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    monkeypatch.chdir(Path(__file__).parents[3])
    monkeypatch.setattr(report_run, "_PACKAGE", "tests.console.web.fake_report")
    with Broker({"console.listener": "127.0.0.1:0", "access.log.dir": str(tmp_path)}) as broker:
        yield Browser(broker.embedded.console_url)


def test_a_report_is_made_and_shown_without_any_rights(browser: Browser) -> None:
    assert browser.get("/report-page").status == 404
    assert browser.post("/report", hours="3").location == "/report"
    eventually(lambda: "Show the report of the last 3 h" in browser.get("/report").text)
    page = browser.get("/report-page")
    assert "the report" in page.body
    assert page.policy.startswith("sandbox; default-src 'none'")


def test_a_failure_is_shown_with_its_last_line(browser: Browser) -> None:
    browser.post("/report", hours="12")
    eventually(lambda: "The report has failed with status 1. no lines in this period" in browser.get("/report").text)
    assert browser.get("/report-page").status == 404


def test_the_access_log_is_searched(browser: Browser) -> None:
    eventually(lambda: "twisted-kafka-console" in browser.get("/logged?api=Metadata&count=100").text or not browser.get("/topics"))
    assert "No line matches." in browser.get("/logged?api=DeleteTopics").text
    assert browser.get("/logged?before=2000&errors=1").status == 200


def test_without_a_log_there_is_no_report() -> None:
    with Broker({"console.listener": "127.0.0.1:0"}) as broker:
        browser = Browser(broker.embedded.console_url)
        assert "set access.log.dir" in browser.get("/report").text
        browser.post("/report", hours="1")
        assert "set access.log.dir" in browser.get("/report").text
        assert "The broker has no access log." in browser.get("/logged").text
