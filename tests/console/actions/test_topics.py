from collections.abc import Callable
from typing import Any

import pytest

from tests.support.console import make_topic, write
from twisted_kafka.console.actions.offsets import ResetOffsets
from twisted_kafka.console.actions.records import Produce, ResendDeadLetter
from twisted_kafka.console.actions.settings import AlterSettings
from twisted_kafka.console.actions.topics import AddPartitions, CreateTopic, DeleteTopic
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.records.messages import message
from twisted_kafka.console.queries.topics.topic import topic


@pytest.mark.medium
def test_the_life_of_a_topic(session: Session, name: Callable[[str], str]) -> None:
    create = CreateTopic(name("t"), 2, settings=(("retention.ms", "60000"),))
    assert create.preview(session).rows == (("partitions", "2"), ("replication factor", "1"), ("retention.ms", "60000"))
    with pytest.raises(CommandError):
        topic(session, name("t"))
    assert create.do(session) == f"topic {name('t')} was created with 2 partitions"
    with pytest.raises(CommandError, match="already exists"):
        create.preview(session)
    more = AddPartitions(name("t"), 3)
    assert more.preview(session).rows == (("partitions", "2", "3"),)
    assert len(topic(session, name("t")).partitions) == 2
    more.do(session)
    assert len(topic(session, name("t")).partitions) == 3
    with pytest.raises(CommandError):
        AddPartitions(name("t"), 1).preview(session)
    write(session, name("t"), [Written(None, b"x", partition=2)])
    ResetOffsets(name("g"), (name("t"),), "earliest").do(session)
    preview = DeleteTopic(name("t")).preview(session)
    assert preview.summary.startswith(f"delete topic {name('t')} with 3 partitions and 1 record (")
    assert preview.warnings[0] == f"group {name('g')} has committed offsets of it"
    DeleteTopic(name("t")).do(session)
    with pytest.raises(CommandError):
        topic(session, name("t"))


def test_a_shift_asks_for_all_partitions_at_once(
    session: Session, name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(session, name("many"), 8)
    write(session, name("many"), [Written(None, b"x", partition=index) for index in range(8)] * 3)
    ResetOffsets(name("g"), (name("many"),), "latest").do(session)
    asked = []
    ask_leaders = Session.ask_leaders

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        return ask_leaders(*arguments, **options)

    monkeypatch.setattr(Session, "ask_leaders", counted)
    assert {each.new_offset for each in ResetOffsets(name("g"), shift=-2).changes(session)} == {1}
    assert {each.new_offset for each in ResetOffsets(name("g"), shift=-9).changes(session)} == {0}
    assert {each.new_offset for each in ResetOffsets(name("g"), shift=5).changes(session)} == {3}
    assert len(asked) == 6


def test_settings_show_what_they_replace(session: Session, name: Callable[[str], str]) -> None:
    make_topic(session, name("s"), retention_ms="60000")
    change = AlterSettings("topic", name("s"), (("retention.ms", "1000"), ("cleanup.policy", "compact")))
    assert change.preview(session).rows == (("retention.ms", "60000", "1000"), ("cleanup.policy", "delete", "compact"))
    change.do(session)
    found = {each.key: each for each in topic(session, name("s")).settings}
    assert (found["retention.ms"].value, found["retention.ms"].source, found["retention.ms"].is_default) == ("1000", "topic", False)
    assert found["retention.ms"].documentation
    assert found["retention.ms"].type == "long"
    back = AlterSettings("topic", name("s"), delete=("retention.ms",))
    assert back.preview(session).rows == (("retention.ms", "1000", "(default)"),)
    back.do(session)
    with pytest.raises(CommandError):
        AlterSettings("topic", name("s"), (("retention.ms", "soon"),)).preview(session)
    with pytest.raises(ValueError, match="nothing to change"):
        AlterSettings("topic", name("s"))
    with pytest.raises(ValueError, match="has no settings"):
        AlterSettings("colour", name("s"), (("a", "b"),))


def test_a_record(session: Session, name: Callable[[str], str]) -> None:
    make_topic(session, name("r"), 3)
    produce = Produce(name("r"), "k", '{"a":1}', (("h", "x"),), form="json")
    where = produce.preview(session).summary
    assert where.startswith("write a record of 8 B to partition ")
    partition = int(where.split("partition ")[1].split(" ")[0])
    assert produce.do(session) == f"the record is at offset 0 of partition {partition} of {name('r')}"
    found = message(session, name("r"), partition, 0)
    assert (found.key.text, found.value.text, found.headers[0][1].text) == ("k", '{"a":1}', "x")
    assert Produce(name("r"), value=None, partition=1).do(session).endswith(f"partition 1 of {name('r')}")
    for wrong, why in (
        (Produce(name("r"), value="{", form="json"), "not JSON"),
        (Produce(name("r"), value="zz", form="hex"), "not hexadecimal"),
        (Produce(name("r"), value="x", form="xml"), "not a form"),
        (Produce(name("r"), value="x" * 2_000_000), "use twisted-kafka produce"),
    ):
        with pytest.raises(ValueError, match=why):
            wrong.preview(session)
    with pytest.raises(CommandError, match="has no partition 7"):
        Produce(name("r"), value="x", partition=7).preview(session)


def test_a_dead_letter_goes_back(session: Session, name: Callable[[str], str]) -> None:
    make_topic(session, name("orders"))
    letters = make_topic(session, name("letters"))
    headers = [("__dlq.errors.topic", name("orders").encode()), ("__dlq.errors.message", b"no such item"), ("own", b"1")]
    write(session, letters, [Written(b"k", b"v", headers), Written(b"k", b"v")])
    resend = ResendDeadLetter(letters, 0, 0)
    preview = resend.preview(session)
    assert preview.summary == f"write the letter at offset 0 to partition 0 of {name('orders')}"
    assert ("message", "no such item") in preview.rows
    resend.do(session)
    found = message(session, name("orders"), 0, 0)
    assert (found.key.text, found.value.text) == ("k", "v")
    assert [key for key, _ in found.headers] == ["own"]
    with pytest.raises(CommandError, match="does not name the topic"):
        ResendDeadLetter(letters, 0, 1).preview(session)
    with pytest.raises(CommandError, match="no record with offset 9"):
        ResendDeadLetter(letters, 0, 9).preview(session)
