"""Every page and every change, of a broker that runs."""

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.console.web.browsing import Browser
from tests.support.eventually import eventually
from twisted_kafka.console.web import places
from twisted_kafka.console.web.pages.changes import ACTIONS
from twisted_kafka.console.web.routes import GETS, SECTIONS
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.testing import Broker

TOPIC = {"action": "produce", "topic": "payments"}
LETTER = {"__dlq.errors.topic": b"payments", "__dlq.errors.message": b"no number", "trace": b"1"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with Broker(console_listener="127.0.0.1:0", console_write_enable=True) as broker:
        broker.create_topic("payments", 3)
        broker.create_topic("orders", 1)
        for number in range(3):
            broker.produce("payments", b'{"id": %d, "amount": 12.5}' % number, key=b"key-%d" % number, partition=0)
        broker.produce("orders", b"<script>alert(1)</script>", key=b"\xff\x00", headers={"h\u202e": b"<b>"})
        broker.produce("orders", b"broken", headers=LETTER)
        yield broker


@pytest.fixture
def browser(kafka: Broker) -> Browser:
    return Browser(kafka.embedded.console_url)


@pytest.mark.parametrize("path", sorted(GETS))
def test_every_page_is_a_page(browser: Browser, path: str) -> None:
    shown = browser.get(path)
    assert shown.status in (200, 303, 400, 404, 409)
    if shown.status != 303:
        assert shown.body.startswith("<!doctype html>")
        assert shown.body.count("<h1>") == 1
    for section, _ in SECTIONS:
        assert shown.status == 303 or f'href="{section}"' in shown.body


def test_the_overview_counts_and_shows_rates(browser: Browser) -> None:
    text = browser.get("/").text
    assert re.search(r"Topics \d", text)
    assert "This broker, per second" in text
    assert re.search(r"Fullest disk \d+ % [\d.]+ \w+ free", text)


def test_the_list_of_topics_is_searched_and_sorted(browser: Browser) -> None:
    assert browser.get("/topics").text.index("orders") < browser.get("/topics").text.index("payments")
    found = browser.get("/topics?search=PAYM").text
    assert "1 topic with" in found
    assert "orders" not in found
    by_name = browser.get("/topics?sort=-name").text
    assert by_name.index("payments") < by_name.index("orders")
    assert browser.get("/topics?sort=none&page=99").status == 200
    assert "No topic has this in its name." in browser.get("/topics?search=%3Cb%3E").text


def test_a_topic_has_partitions_and_settings_with_documentation(browser: Browser) -> None:
    shown = browser.get("/topic?name=payments&settings=all")
    assert "Records 3" in shown.text
    assert "retention.ms" in shown.text
    assert "/messages?topic=payments&partition=0" in shown.links
    assert browser.get("/topic?name=none").status == 404
    assert browser.get("/topic").status == 400


def test_messages_are_found_by_key_text_condition_and_place(browser: Browser) -> None:
    def count(query: str) -> int:
        shown = browser.get(f"/messages?topic=payments{query}")
        assert shown.status == 200
        return len({each for each in shown.links if each.startswith("/message?")})

    assert count("") == 3
    assert count("&key=key-1") == count("&search=%22id%22:+2") == count("&where=value.id%3D2") == 1
    assert count("&where=value.id%3E0;value.id%3C2") == 1
    assert count("&partition=1") == 0
    assert count("&from=at&at=1&partition=0") == 2
    assert browser.get("/messages?topic=payments&where=nonsense").status == 400
    assert browser.get("/messages?topic=none").status == 404


def test_a_message_is_shown_whole_and_as_text(browser: Browser) -> None:
    shown = browser.get("/message?topic=payments&partition=0&offset=1")
    assert "&#34;amount&#34;: 12.5" in shown.body
    hostile = browser.get("/message?topic=orders&partition=0&offset=0")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hostile.body
    assert "h\\u202e" in hostile.body
    assert "ff00" in hostile.body
    assert browser.get("/message?topic=orders&partition=0&offset=99").status == 409


def test_a_tail_is_a_page_for_those_without_scripts_too(browser: Browser) -> None:
    shown = browser.get("/tail?topic=payments")
    assert "A tail needs JavaScript." in shown.text
    assert 'data-at="/live?at=' in shown.body


def test_requests_and_clients_are_those_of_the_broker(kafka: Broker, browser: Browser) -> None:
    assert browser.get("/requests?api=Metadata").status == 200  # from now on they are kept
    kafka.ask(MetadataRequest(topics=None))
    found = eventually(lambda: [each for each in browser.get("/requests?api=Metadata").links if each.startswith("/request?")])
    shown = browser.get(found[0])
    assert "Took" in shown.text
    assert "&#34;topics&#34;" in shown.body
    assert browser.get("/request?number=999999").status == 409
    assert browser.get("/clients?sort=-connections").status == 200
    assert "kafka" in browser.get("/threads").text


def test_a_question_about_rights_is_answered(browser: Browser) -> None:
    assert "Yes" in browser.get("/check?user=alice&operation=Read&kind=Topic&name=payments").text
    assert browser.get("/check?user=alice&operation=Fly&kind=Topic&name=payments").status == 400
    assert browser.get("/check?user=alice&operation=Read&kind=Topic").status == 400


def previewed(browser: Browser, **form: str) -> str:
    shown = browser.post("/change", step="preview", **form)
    assert shown.status == 200, shown.text
    assert 'value="do"' in shown.body
    return shown.text


def done(browser: Browser, **form: str) -> str:
    answer = browser.post("/change", step="do", **form)
    assert answer.status == 303, answer.text
    return browser.get(answer.location).text


@pytest.mark.medium
def test_a_topic_is_created_grows_changes_and_is_deleted(kafka: Broker, browser: Browser) -> None:
    new = {"action": "create-topic", "topic": "invoices", "partitions": "2", "settings": "retention.ms=1000\ncleanup.policy=delete"}
    assert "This will create topic invoices" in previewed(browser, **new)
    assert "invoices" not in browser.get("/topics").text
    assert "Topic invoices was created with 2 partitions." in done(browser, **new)
    more = {"action": "add-partitions", "topic": "invoices", "count": "5"}
    assert "instead of 2" in previewed(browser, **more)
    assert "Topic invoices has 5 partitions." in done(browser, **more)
    setting = {"action": "change-setting", "kind": "topic", "name": "invoices", "key": "retention.ms", "value": "2000"}
    assert "retention.ms 1000 2000" in previewed(browser, **setting)
    done(browser, **setting)
    assert "2000" in browser.get("/topic?name=invoices").text
    gone = {"action": "delete-topic", "topic": "invoices"}
    assert "The records cannot be restored." in browser.get("/change?action=delete-topic&topic=invoices").text
    assert "Topic invoices was deleted." in done(browser, **gone)


def test_a_record_is_produced_and_a_dead_letter_resent(kafka: Broker, browser: Browser) -> None:
    record = {**TOPIC, "key": "k", "value": "line 1\r\nline 2", "headers": "a: b", "partition": "2"}
    assert "partition 2 of payments" in previewed(browser, **record)
    assert "The record is at offset 0 of partition 2" in done(browser, **record)
    (written,) = kafka.records("payments", 2)
    assert (written.key, written.value) == (b"k", b"line 1\nline 2")
    assert "Resend this dead letter" in browser.get("/message?topic=orders&partition=0&offset=1").text
    letter = {"action": "resend", "topic": "orders", "partition": "0", "offset": "1"}
    assert "no number" in previewed(browser, **letter)
    done(browser, **letter)
    assert b"broken" in [each.value for each in kafka.records("payments")]


@pytest.mark.medium
def test_a_group_is_reset_and_deleted(browser: Browser) -> None:
    reset = {"action": "reset-offsets", "group": "billing", "to": "earliest", "topics": "payments:0"}
    assert "set 1 offset of group billing" in previewed(browser, **reset)
    done(browser, **reset)
    assert "billing" in browser.get("/groups?kind=classic").text
    assert "billing" in browser.get("/topic?name=payments").text
    assert "payments" in browser.get("/group?name=billing").text
    assert browser.get("/group?name=none").status == 404
    assert "Group billing was deleted." in done(browser, action="delete-group", group="billing")


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"action": "create-topic", "topic": "a b"}, "a b"),
        ({"action": "create-topic", "topic": "x", "partitions": "many"}, "has to be a number"),
        ({"action": "create-topic", "topic": "x", "partitions": "--5"}, "has to be a number"),
        ({"action": "create-topic", "topic": "x", "partitions": "0" * 20 + "3"}, "partitions has 21 digits"),
        ({"action": "create-topic", "topic": "x", "settings": "nonsense"}, "expected a line such as"),
        ({"action": "create-topic"}, ""),
        ({"action": "add-partitions", "topic": "payments", "count": "1"}, "payments"),
        ({**TOPIC, "value": "{", "form": "json"}, "not JSON"),
        ({**TOPIC, "value": "v", "partition": "9"}, "no partition 9"),
        ({"action": "delete-user", "user": "nobody"}, "there is no password of"),
        ({"action": "set-password", "user": "a", "iterations": "1"}, "iterations must be from 4096"),
        (
            {"action": "add-acl", "principal": "a", "operation": "Read", "resource_type": "Topic", "name": "t"},
            "authorizer.class.name",
        ),
        (
            {"action": "add-acl", "principal": "a", "operation": "Write", "resource_type": "Group", "name": "g"},
            "no operation Write",
        ),
        ({"action": "set-quota", "user": "a", "key": "producer_byte_rate", "value": "much"}, "is not a number"),
        ({"action": "set-quota", "user": "a", "key": "producer_byte_rate", "value": "-1"}, "above 0"),
        ({"action": "set-quota", "key": "producer_byte_rate", "value": "1"}, "name a user"),
        ({"action": "abort", "topic": "payments", "partition": "0", "offset": "5"}, "no transaction"),
    ],
)
def test_a_form_with_a_mistake_says_so_and_changes_nothing(browser: Browser, form: dict[str, str], problem: str) -> None:
    shown = browser.post("/change", step="preview", **form)
    assert problem in shown.text
    assert 'value="do"' not in shown.body
    assert browser.post("/change", step="do", **form).status in (400, 404, 409)


@pytest.mark.medium
def test_a_place_in_a_topic_with_many_partitions_fits_into_the_address(
    kafka: Broker, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "LONGEST", 5)
    kafka.create_topic("wide", 2)
    for number in range(30):
        kafka.produce("wide", b"value-%02d" % number, partition=number % 2)
    older = next(each for each in browser.get("/messages?topic=wide&count=25").links if "cursor=" in each)
    assert "cursor=~" in older or "cursor=%7E" in older
    text = browser.get(older).text
    assert sum(f"value-{number:02}" in text for number in range(30)) == 5
    assert browser.get("/messages?topic=wide&cursor=~gone").status == 400
    place = browser.first_event("/live?at=/tail?topic=wide", "id").removeprefix("id: ")
    assert place.startswith("~")
    kafka.produce("wide", b"value-30", partition=1)
    assert "value-30" in browser.first_event(f"/live?at=/tail?topic=wide&after={place}")


def test_values_are_decoded_with_a_schema_in_the_address(kafka: Broker, browser: Browser) -> None:
    kafka.create_topic("avro", 1)
    kafka.produce("avro", b"\x06Ada\x54", partition=0)
    fields = [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]
    schema = quote(json.dumps({"type": "record", "name": "Person", "fields": fields}))
    shown = browser.get(f"/messages?topic=avro&schema={schema}")
    assert '{"name": "Ada", "age": 42}'.replace('"', "&#34;") in shown.body
    one = browser.get(next(each for each in shown.links if each.startswith("/message?")))
    assert "&#34;age&#34;: 42" in one.body
    assert "avro," in one.text
    assert "schema=" in one.body
    for path in ("/messages?topic=avro", "/message?topic=avro&partition=0&offset=0"):
        wrong = browser.get(f"{path}&schema=%7B<b>")
        assert (wrong.status, "the schema cannot be read" in wrong.text, "<b>" in wrong.body) == (400, True, False)


def test_unknown_actions_are_no_pages(browser: Browser) -> None:
    assert browser.get("/change?action=drop-everything").status == 404
    assert set(ACTIONS) == {
        re.search(r'name="action" value="([\w-]+)"', browser.get(f"/change?action={each}").body)[1] for each in ACTIONS
    }


def test_an_unknown_page_leads_back(browser: Browser) -> None:
    shown = browser.get("/none")
    assert shown.status == 404
    assert "/" in shown.links


def test_entries_without_an_authorizer_are_no_error(browser: Browser) -> None:
    shown = browser.get("/acls")
    assert shown.status == 200
    assert "everybody may do everything" in shown.text
