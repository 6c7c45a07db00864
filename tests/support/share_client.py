"""A share-group member in the raw protocol, for this broker and for Apache Kafka: one connection, one request at a time."""

import socket
import struct
from typing import Any, Self

from tests.support.budget import patient
from tests.support.eventually import eventually
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest, FindCoordinatorResponse
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.protocol.messages.share.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from twisted_kafka.share.share_partition_key import coordinator_key

TIMEOUT_S = patient(30.0)
_SHARE = 2
_GROUP_RESOURCE = 32
Batch = tuple[int, int, list[int]]
"""First and last offset, and the acknowledgement types."""
State = tuple[int, int, int, int]
"""First and last offset, delivery state and delivery count."""


class RawClient:
    """Sends requests of flexible versions over one connection."""

    def __init__(self, bootstrap: str, client_id: str = "raw") -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._client_id = client_id.encode()
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, request: Message, response_class: Any, version: int) -> Any:
        """Send a request and return the response."""
        self.send(request, version)
        return self.receive(response_class, version)

    def send(self, request: Message, version: int) -> None:
        self._correlation_id += 1
        key = type(request).KEY
        header = struct.pack(">hhih", key, version, self._correlation_id, len(self._client_id)) + self._client_id + b"\0"
        frame = header + request.encode(version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, response_class: Any, version: int) -> Any:
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        assert int.from_bytes(frame[:4], "big") == self._correlation_id
        return response_class.decode(frame, version, 5)

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            more = self._socket.recv(size - len(read))
            if not more:
                raise ConnectionError("the connection was closed")
            read += more
        return read


class ShareMember(RawClient):
    """One member's share session with a broker, for partitions of one topic."""

    def __init__(self, bootstrap: str, group_id: str, member_id: str, topic_id: bytes, partitions: tuple[int, ...] = (0,)) -> None:
        super().__init__(bootstrap)
        self.group_id = group_id
        self.member_id = member_id
        self.topic_id = topic_id
        self.partitions = partitions
        self.epoch = 0

    def fetch(self, *acknowledged: Batch, version: int = 2, **options: Any) -> Any:
        """Send ShareFetch with the options of ``send_fetch``; return the response."""
        self.send_fetch(*acknowledged, version=version, **options)
        return self.received_fetch(version)

    def received_fetch(self, version: int = 2) -> Any:
        return self.receive(ShareFetchResponse, version)

    def send_fetch(
        self,
        *acknowledged: Batch,
        max_wait_ms: int = 500,
        max_records: int = 500,
        batch_size: int = 500,
        mode: int = 0,
        renews: bool = False,
        epoch: int | None = None,
        version: int = 2,
        partition: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
    ) -> None:
        """Send ShareFetch. ``acknowledged`` are of ``partition``."""
        sent = self.epoch if epoch is None else epoch
        partitions = []
        if sent == 0:
            partitions = [FetchPartition(partition_index=index, acknowledgement_batches=[]) for index in self.partitions]
        if acknowledged:
            partitions = [FetchPartition(partition_index=partition, acknowledgement_batches=_batches(acknowledged))]
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=sent,
            max_wait_ms=0 if renews else max_wait_ms,
            min_bytes=0 if renews else min_bytes,
            max_bytes=0 if renews else max_bytes,
            max_records=0 if renews else max_records,
            batch_size=0 if renews else batch_size,
            share_acquire_mode=mode,
            is_renew_ack=renews,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[],
        )
        if epoch is None:
            self.epoch += 1
        self.send(request, version)

    def forget(self, partition: int) -> Any:
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=0,
            max_records=1,
            batch_size=1,
            topics=[],
            forgotten_topics_data=[ForgottenTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        self.epoch += 1
        return self.call(request, ShareFetchResponse, 2)

    def acquired(self, *acknowledged: Batch, **options: Any) -> list[tuple[int, int, int]]:
        """Fetch; return the acquired offsets with their delivery counts."""
        return acquired_of(self.fetch(*acknowledged, **options))

    def acknowledge(
        self, *acknowledged: Batch, renews: bool = False, epoch: int | None = None, version: int = 2, partition: int = 0
    ) -> Any:
        """Send ShareAcknowledge; return the response."""
        data = AcknowledgePartition(partition_index=partition, acknowledgement_batches=_batches(acknowledged))
        request = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=renews,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[data])] if acknowledged else [],
        )
        if epoch is None:
            self.epoch += 1
        return self.call(request, ShareAcknowledgeResponse, version)


def new_topic(client: RawClient, name: str, partitions: int = 1, **configs: str) -> bytes:
    """Create a topic; return its id when its partitions have leaders."""
    own = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=own)
    client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), CreateTopicsResponse, 7)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=NO_UUID)])
    described = eventually(lambda: _with_leaders(client.call(asked, MetadataResponse, 12)))
    topic_id: bytes = described.topic_id
    return topic_id


def _with_leaders(response: Any) -> Any:
    (topic,) = response.topics
    return topic if topic.partitions and all(each.leader_id >= 0 for each in topic.partitions) else None


def initialize(
    client: RawClient, group_id: str, topic_id: bytes, start_offset: int = 0, *, state_epoch: int = 1, partition: int = 0
) -> None:
    """Initialize a share partition, as the group coordinator does; the first time the internal topic is created."""
    data = wire.InitializeShareGroupStateRequestPartitionData(
        partition=partition, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = wire.InitializeStateData(topic_id=topic_id, partitions=[data])
    request = wire.InitializeShareGroupStateRequest(group_id=group_id, topics=[topic])
    find = FindCoordinatorRequest(key_type=_SHARE, coordinator_keys=[coordinator_key(group_id, topic_id, partition)])

    def is_done() -> bool:
        client.call(find, FindCoordinatorResponse, 6)
        response = client.call(request, wire.InitializeShareGroupStateResponse, 0)
        return not response.results[0].partitions[0].error_code

    assert eventually(is_done)


def set_configs(client: RawClient, resource_type: int, name: str, **values: str) -> None:
    """Set configs, whose names have ``_`` for dots."""
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    response = client.call(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse, 1)
    assert [each.error_code for each in response.responses] == [0]


def set_group_configs(client: RawClient, group_id: str, **values: str) -> None:
    set_configs(client, _GROUP_RESOURCE, group_id, **values)


def topic_id_of(client: RawClient, name: str) -> bytes:
    """Return the id of a topic that exists."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=NO_UUID)])
    topic_id: bytes = eventually(lambda: _with_leaders(client.call(asked, MetadataResponse, 12))).topic_id
    return topic_id


def initialize_where_it_is(client: RawClient, group_id: str, topic_id: bytes, partition: int) -> None:
    """Initialize a share partition at its coordinator, which ``client``'s broker knows."""
    find = FindCoordinatorRequest(key_type=_SHARE, coordinator_keys=[coordinator_key(group_id, topic_id, partition)])

    def found() -> Any:
        (coordinator,) = client.call(find, FindCoordinatorResponse, 6).coordinators
        return None if coordinator.error_code else coordinator

    coordinator = eventually(found)
    with RawClient(f"{coordinator.host}:{coordinator.port}") as there:
        initialize(there, group_id, topic_id, partition=partition)


def read_state(
    client: RawClient, group_id: str, topic_id: bytes, partition: int = 0
) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Return the start offset and the batches that the share coordinator has."""
    data = wire.ReadShareGroupStateRequestPartitionData(partition=partition, leader_epoch=0)
    topic = wire.ReadStateData(topic_id=topic_id, partitions=[data])
    request = wire.ReadShareGroupStateRequest(group_id=group_id, topics=[topic])
    ((found,),) = [each.partitions for each in client.call(request, wire.ReadShareGroupStateResponse, 0).results]
    assert not found.error_code, found.error_message
    batches = [(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in found.state_batches]
    return found.start_offset, batches


def acquired_of(response: Any) -> list[tuple[int, int, int]]:
    assert not response.error_code, (response.error_code, response.error_message)
    found = []
    for topic in response.responses:
        for partition in topic.partitions:
            assert not partition.error_code, (partition.error_code, partition.error_message)
            found += [(each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records]
    return found


def error_of(response: Any) -> tuple[int, int]:
    """Return the error of a response, and that of its only partition or its acknowledgement; 0 without partitions."""
    for topic in response.responses:
        for partition in topic.partitions:
            return response.error_code, partition.error_code or getattr(partition, "acknowledge_error_code", 0)
    return response.error_code, 0


def _batches(acknowledged: tuple[Batch, ...]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in acknowledged
    ]
