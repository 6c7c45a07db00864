"""Share groups with the clients and tools of several Kafkas."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clients.clients import java_library, later_java_class_path, later_java_tool
from tests.support.clients.served import ServedBroker
from tests.support.clients.sharing import GROUP, PARTITIONS, SETTLED_S, TOPIC, JavaMember, Sender, faults, holds_of, lag, prepare
from tests.support.eventually import eventually

RECORDS = 2_000
LOCK_NS = 30_000_000_000
COMMAND = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(600)]


@pytest.fixture
def broker(start_broker: Callable[..., ServedBroker]) -> ServedBroker:
    broker = start_broker("group.coordinator.rebalance.protocols=classic,consumer,share")
    prepare(broker.bootstrap)
    sender = Sender(broker.bootstrap)
    sender.send(RECORDS)
    sender.flush()
    return broker


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.4.0"])
def test_members_of_java_complete_each_record_once(broker: ServedBroker, tmp_path: Path, version: str) -> None:
    if java_library("kafka-clients", version) is None:
        pytest.skip("Java or Maven is not installed")
    members = [JavaMember(broker.bootstrap, GROUP, TOPIC, f"java{number}", tmp_path, version) for number in range(2)]
    eventually(lambda: lag(broker.bootstrap) == 0, wait_s=SETTLED_S, pause_s=0.5)
    holds = holds_of({each.name: each.stop() for each in members})
    places = [(number % PARTITIONS, number // PARTITIONS) for number in range(RECORDS)]
    assert not faults(holds, places, {}, LOCK_NS)
    assert {hold.member for history in holds.values() for hold in history} == {each.name for each in members}


def test_the_tools_see_and_change_a_group(broker: ServedBroker) -> None:
    if later_java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    server = ["--bootstrap-server", broker.bootstrap]
    consume = [*server, "--topic", TOPIC, "--group", GROUP, "--max-messages", str(RECORDS), "--timeout-ms", "60000"]
    read = later_java_tool("org.apache.kafka.tools.consumer.ConsoleShareConsumer", *consume)
    assert sorted(map(int, read.split())) == list(range(RECORDS))
    assert later_java_tool(COMMAND, *server, "--list").split() == [GROUP]
    described = later_java_tool(COMMAND, *server, "--describe", "--group", GROUP, "--offsets").split()
    assert described.count(TOPIC) == PARTITIONS
    later_java_tool(COMMAND, *server, "--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest", "--execute")
    assert lag(broker.bootstrap) == RECORDS
    later_java_tool(COMMAND, *server, "--delete", "--group", GROUP)
    assert later_java_tool(COMMAND, *server, "--list").split() == []
    broker.kill()
    logs = [str(path) for path in broker.log_dir.glob("__share_group_state-*/*.log") if path.stat().st_size]
    dumped = later_java_tool("org.apache.kafka.tools.DumpLogSegments", "--share-group-state-decoder", "--files", ",".join(logs))
    for kind in ("0", "1"):  # snapshots and updates
        assert f'key: {{"type":"{kind}","data":{{"groupId":"{GROUP}"' in dumped, dumped[:3000]


def test_the_verifiable_consumer_gets_each_record_in_each_mode(broker: ServedBroker) -> None:
    if later_java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    for mode in ("auto", "sync", "async"):
        words = ["--bootstrap-server", broker.bootstrap, "--topic", TOPIC, "--group-id", f"verified-{mode}"]
        words += ["--max-messages", str(RECORDS), "--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest"]
        printed = later_java_tool("org.apache.kafka.tools.VerifiableShareConsumer", *words)
        events = [json.loads(line) for line in printed.splitlines()]
        assert (events[0]["name"], events[-1]["name"]) == ("startup_complete", "shutdown_complete")
        assert sum(each["count"] for each in events if each["name"] == "records_consumed") == RECORDS
        acknowledged = [each for each in events if each["name"] == "offsets_acknowledged"]
        assert sum(each["count"] for each in acknowledged if each["success"]) == RECORDS
