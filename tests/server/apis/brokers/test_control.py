"""A controller elsewhere asks over the wire."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.controller_cluster import Cluster
from tests.support.eventually import WAIT_S
from twisted_kafka.broker.broker import Broker
from twisted_kafka.metadata.store import StoreDisconnectedError
from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import request_header_version, response_header_version
from twisted_kafka.protocol.messages.inter_broker import (
    ControlledShutdownRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.server.apis.brokers.control import ControlApis

LISTENERS = {
    "broker.id": "1",
    "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT,CONTROL:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "control.plane.listener.name": "CONTROL",
}
TOPIC_ID = bytes(range(16))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(LISTENERS, data_dir=Path(tmp_path_factory.mktemp("control"))) as running:
        yield running


def ask(broker: Broker, listener: str, request: Message, version: int) -> Any:
    port = next(each.port for each in broker.listeners if each.listener_name == listener)
    header = struct.pack(">hhi", request.KEY, version, 7)
    header_version = request_header_version(request.KEY, version)
    if header_version >= 1:
        header += struct.pack(">h", -1)
    if header_version >= 2:
        header += b"\0"
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
        data = header + request.encode(version)
        client.sendall(struct.pack(">i", len(data)) + data)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
            answer += client.recv(65536)
    offset = 9 if response_header_version(request.KEY, version) else 8
    return response_class(request.KEY).decode(answer, version, offset)


def lead(epoch: int = 1) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(controller_epoch=epoch, leader=1, isr=[1], replicas=[1])
    topic = LeaderAndIsrTopicState(topic_name="sent", topic_id=TOPIC_ID, partition_states=[state])
    return LeaderAndIsrRequest(controller_id=1, controller_epoch=epoch, topic_states=[topic])


def test_orders_are_carried_out(broker: Broker) -> None:
    logs = broker._server.logs
    metadata = broker._server.metadata
    assert logs is not None
    assert metadata is not None
    partition = TopicPartition("sent", 0)
    answer = ask(broker, "CONTROL", lead(), 7)
    assert (answer.error_code, answer.topics[0].topic_id, answer.topics[0].partition_errors[0].error_code) == (0, TOPIC_ID, 0)
    assert logs.get_log(partition) is not None
    end_points = [UpdateMetadataEndpoint(port=9, host="h", listener="OUTSIDE")]
    update = UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        live_brokers=[UpdateMetadataBroker(id=1, endpoints=end_points)],
        topic_states=[
            UpdateMetadataTopicState(
                topic_name="sent",
                topic_id=TOPIC_ID,
                partition_states=[UpdateMetadataPartitionState(controller_epoch=1, leader=1, isr=[1], replicas=[1])],
            )
        ],
    )
    assert ask(broker, "CONTROL", update, 8).error_code == 0
    found = metadata.partition(partition)
    assert found is not None
    assert found.leader == 1
    state = StopReplicaPartitionState(leader_epoch=5, delete_partition=True)
    topic = StopReplicaTopicState(topic_name="sent", partition_states=[state])
    stop = StopReplicaRequest(controller_id=1, controller_epoch=1, topic_states=[topic])
    assert ask(broker, "CONTROL", stop, 4).partition_errors[0].error_code == 0
    assert logs.get_log(partition) is None


def test_stale_epochs_are_refused(broker: Broker) -> None:
    answer = ask(broker, "CONTROL", lead(epoch=0), 7)
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    stale: dict[str, Any] = {"controller_id": 1, "controller_epoch": 1, "broker_epoch": 0}
    for request, version in (
        (LeaderAndIsrRequest(**stale), 7),
        (StopReplicaRequest(**stale), 4),
        (UpdateMetadataRequest(**stale), 8),
        (ControlledShutdownRequest(broker_id=1, broker_epoch=0), 3),
    ):
        assert ask(broker, "CONTROL", request, version).error_code == ErrorCode.STALE_BROKER_EPOCH, request
    assert ask(broker, "CONTROL", UpdateMetadataRequest(), 8).error_code == ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.mark.parametrize("listener", ["OUTSIDE", "INSIDE"])
def test_orders_on_other_listeners_are_refused(broker: Broker, listener: str) -> None:
    for request, version in ((lead(), 7), (StopReplicaRequest(), 4), (UpdateMetadataRequest(controller_epoch=9), 8)):
        assert ask(broker, listener, request, version).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, request


def test_a_controlled_shutdown_is_asked_for_among_brokers(broker: Broker) -> None:
    request = ControlledShutdownRequest(broker_id=99)
    assert ask(broker, "OUTSIDE", request, 3).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for version in range(4):
        assert ask(broker, "INSIDE", request, version).error_code == ErrorCode.BROKER_NOT_AVAILABLE


def test_a_controller_that_does_not_know_what_it_wrote_for_a_controlled_shutdown_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path / "metadata.sqlite")
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1])
    genuine = cluster.store.batch

    def lose(groups: Any) -> Any:
        genuine(groups)
        return [StoreDisconnectedError("no answer") for _ in groups]

    monkeypatch.setattr(cluster.store, "batch", lose)
    control: Any = None
    apis = ControlApis(control, cluster.controller, cluster.config, lambda: 0)
    context: Any = SimpleNamespace(note_resource=lambda *_: None, is_privileged_listener=True)
    answer = apis.controlled_shutdown(context, ControlledShutdownRequest(broker_id=2, broker_epoch=-1))
    cluster.controller.pump()
    monkeypatch.undo()
    with pytest.raises(StoreDisconnectedError):
        answer.result(0)
    cluster.controller.reconnected(lambda: None)
    cluster.pump()
    assert cluster.brokers.cache.partition(TopicPartition("t", 0)).leader == cluster.state("t").leader == 1
    cluster.store.close()
