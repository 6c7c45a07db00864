"""The APIs of streams groups: rights, internal topics, and while streams groups are not enabled."""

from concurrent.futures import Future
from typing import Any

import pytest

from tests.group_coordinator.streams_members import WORDS, G, internal, subtopology, topology
from tests.server.apis.group_handlers import ask
from tests.server.apis.rights import Rights
from tests.support.coordinator_fakes import Bench
from tests.support.fake import Fake
from twisted_kafka.admin.streams_topics import StreamsTopics
from twisted_kafka.admin.topic_orders import NewTopic, TopicResult
from twisted_kafka.group_coordinator.state.streams.configured_topology import Status
from twisted_kafka.metadata.store import StoreError
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import (
    ErrorCode,
    GroupAuthorizationError,
    InvalidConfigurationError,
    StreamsInvalidTopologyError,
    TopicAuthorizationError,
    UnsupportedVersionError,
)
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from twisted_kafka.protocol.messages.streams.streams_topology import StreamsGroupTopologyDescriptionUpdateRequest
from twisted_kafka.quota.controller_mutation_quota_manager import UNBOUNDED
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.groups.streams_groups import StreamsGroupApis, TopicCreation
from twisted_kafka.server.authorization import ALLOW_ALL, Authorization

READ_GROUP = (AclOperation.READ, ResourceType.GROUP, G)
DESCRIBE_GROUP = (AclOperation.DESCRIBE, ResourceType.GROUP, G)
DESCRIBE_T = (AclOperation.DESCRIBE, ResourceType.TOPIC, "t")
DESCRIBE_COUNTS = (AclOperation.DESCRIBE, ResourceType.TOPIC, "counts")
CREATE_COUNTS = (AclOperation.CREATE, ResourceType.TOPIC, "counts")
CREATE_ANY = (AclOperation.CREATE, ResourceType.CLUSTER, "kafka-cluster")
JOIN_RIGHTS = (READ_GROUP, DESCRIBE_T, DESCRIBE_COUNTS)


class Topics(Fake):
    """Topics that are created, or refused."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.orders: list[NewTopic] = []
        self.refusal: Exception | None = None
        self.failure: Exception | None = None

    def create_for_application(self, orders: Any, mutations: object) -> list[TopicResult]:
        self.orders += orders
        if self.failure is not None:
            raise self.failure
        results = [TopicResult(order.name) for order in orders]
        for result in results:
            if self.refusal is not None:
                result.refuse(self.refusal)
        return results


class Quotas(Fake):
    def permissive_quota_for(self, context: object) -> Any:
        return UNBOUNDED


class Served:
    """The family over a coordinator, with topic t (2 partitions)."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.bench = Bench()
        self.bench.topics.change({"t": 2})
        self.topics = Topics(self.bench)
        self.creation = TopicCreation(StreamsTopics(self.topics, self.bench.clock, self.bench.scheduler), Quotas())
        self.enabled = enabled

    def ask(self, request: Message, version: int = 1, *rights: Any) -> Any:
        authorization: Any = Authorization(Rights(*rights)) if rights else ALLOW_ALL
        family = StreamsGroupApis(self.bench.groups, self.creation, lambda: self.enabled, authorization)
        answer, _ = ask(family, request, version)
        return answer.result(0) if isinstance(answer, Future) else answer

    def status(self, *rights: Any, **fields: Any) -> str:
        """Join; return why internal topics are missing."""
        (found,) = [
            each for each in self.ask(join(**fields), 1, *rights).status if each.status_code == Status.MISSING_INTERNAL_TOPICS
        ]
        detail: str = found.status_detail
        self.bench.scheduler.run_due()
        return detail


def join(**fields: Any) -> StreamsGroupHeartbeatRequest:
    values = {"topology": WORDS, "rebalance_timeout_ms": 1_000, "active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    return StreamsGroupHeartbeatRequest(group_id=G, member_id="m", member_epoch=0, process_id="p", **{**values, **fields})


DESCRIBE = StreamsGroupDescribeRequest(group_ids=[G], include_authorized_operations=True, include_topology_description=True)
UPDATE = StreamsGroupTopologyDescriptionUpdateRequest(group_id=G, member_id="m")


@pytest.mark.parametrize(("request_", "version"), [(join(), 1), (join(), 0), (DESCRIBE, 1), (UPDATE, 0)])
def test_requests_are_refused_while_streams_groups_are_not_enabled(request_: Message, version: int) -> None:
    with pytest.raises(UnsupportedVersionError):
        Served(enabled=False).ask(request_, version)


def test_internal_topics_are_created_as_the_topology_wants_them() -> None:
    served = Served()
    assert served.status() == "Internal topics are missing: counts"
    (order,) = served.topics.orders
    assert (order.name, order.num_partitions, order.replication_factor) == ("counts", 2, -1)
    assert order.configs == {"cleanup.policy": "compact"}


def test_a_creation_that_fails_is_explained_and_tried_again_later() -> None:
    served = Served()
    served.topics.refusal = InvalidConfigurationError("no such policy")
    explained = "Internal topics are missing: counts; Creation failed: counts (no such policy)."
    assert served.status() == "Internal topics are missing: counts"
    assert served.status() == served.status() == explained
    assert len(served.topics.orders) == 1
    served.bench.clock.advance_ms(2 * 500)
    assert served.status() == "Internal topics are missing: counts"
    assert served.status() == explained
    assert len(served.topics.orders) == 2
    served.topics.refusal = None
    served.bench.clock.advance_ms(2 * 500)
    assert served.status() == served.status() == "Internal topics are missing: counts"


def test_topics_that_are_being_created_are_not_created_twice() -> None:
    served = Served()
    for _ in range(3):
        served.ask(join())
    assert not served.topics.orders, "another thread creates them"
    served.bench.scheduler.run_due()
    assert [order.name for order in served.topics.orders] == ["counts"]


def test_only_some_reasons_are_named() -> None:
    served = Served()
    served.topics.refusal = InvalidConfigurationError("no")
    many = topology(subtopology("0", "t", state_changelog_topics=[internal(f"c{number}") for number in range(5)]))
    served.status(topology=many)
    assert served.status(topology=many).endswith("; Creation failed: c0 (no), c1 (no), c2 (no) and 2 more.")


def test_a_member_joins_while_the_metadata_store_fails() -> None:
    served = Served()
    served.topics.failure = StoreError("/brokers/topics/counts: no connection")
    served.status()
    assert served.status().endswith("Creation failed: counts (the metadata store failed: /brokers/topics/counts: no connection).")


def test_a_status_fits_in_a_response() -> None:
    served = Served()
    many = topology(subtopology("0", "t", state_changelog_topics=[internal(f"{number:0>200}") for number in range(200)]))
    names = {each.name for each in many.subtopologies[0].state_changelog_topics}
    rights = (READ_GROUP, DESCRIBE_T, *((AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names))
    answer = served.ask(join(topology=many, shutdown_application=True), 1, *rights)
    assert [len(each.status_detail) for each in answer.status] == [1_003, 101]
    assert answer.encode(1)


def test_the_rights_to_join_and_to_create_topics() -> None:
    for missing, error in ((READ_GROUP, GroupAuthorizationError), (DESCRIBE_T, TopicAuthorizationError)):
        with pytest.raises(error):
            Served().ask(join(), 1, *(each for each in JOIN_RIGHTS if each != missing))
    served = Served()
    assert served.status(*JOIN_RIGHTS).endswith("; Unauthorized to CREATE on topics counts.")
    assert not served.topics.orders
    for right in (CREATE_COUNTS, CREATE_ANY):
        served = Served()
        assert served.status(*JOIN_RIGHTS, right) == "Internal topics are missing: counts"
        assert [order.name for order in served.topics.orders] == ["counts"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [("__consumer_offsets", "internal topics __consumer_offsets"), ("a/b", "Topic names a/b are not valid"), ("", "not valid")],
)
def test_topics_that_a_topology_may_not_use(wrong: str, message: str) -> None:
    for each in (subtopology("0", wrong), subtopology("0", "t", repartition_sink_topics=[wrong])):
        with pytest.raises(StreamsInvalidTopologyError, match=message):
            Served().ask(join(topology=topology(each)))


def test_groups_are_described_to_those_with_the_rights() -> None:
    served = Served()
    served.ask(join())
    (group,) = served.ask(DESCRIBE).groups
    assert (group.error_code, group.group_state, group.assignor_name) == (ErrorCode.NONE, "NotReady", "sticky")
    assert (group.topology_description, group.topology_description_status) == (None, 1)
    assert served.ask(StreamsGroupDescribeRequest(group_ids=[G]), 0).groups[0].topology_description_status == 0
    (group,) = served.ask(DESCRIBE, 1, DESCRIBE_T, DESCRIBE_COUNTS).groups
    assert group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    (group,) = served.ask(DESCRIBE, 1, DESCRIBE_GROUP, DESCRIBE_T).groups
    assert (group.error_code, group.members, group.topology) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [], None)
    (group,) = served.ask(DESCRIBE, 1, DESCRIBE_GROUP, DESCRIBE_T, DESCRIBE_COUNTS).groups
    assert group.error_code == ErrorCode.NONE
    empty, unknown = served.ask(StreamsGroupDescribeRequest(group_ids=["", "x"])).groups
    assert (empty.error_code, unknown.error_code) == (ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_group_is_described_once() -> None:
    served = Served()
    served.ask(join())
    for rights in ((), (DESCRIBE_T,)):
        answer = served.ask(StreamsGroupDescribeRequest(group_ids=[G, "other", G]), 1, *rights)
        assert [each.group_id for each in answer.groups] == [G, "other"]


def test_without_a_plugin_there_are_no_topology_descriptions() -> None:
    with pytest.raises(UnsupportedVersionError, match="no streams group topology description plugin"):
        Served().ask(UPDATE, 0)
