"""Descriptions of streams groups' topologies, which a plug-in keeps (KIP-1331)."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from tests.group_coordinator.streams_members import PLAIN, WORDS, G, Streams, subtopology, topology
from tests.support.coordinator_fakes import BROKER_CONFIG, Bench, join
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import COORDINATOR_TYPE
from twisted_kafka.group_coordinator.shared.topology_descriptions import FIRST_BACKOFF_MS, KEY, make_topology_descriptions
from twisted_kafka.group_coordinator.state.streams.streams_group import UNCERTAIN_EPOCH
from twisted_kafka.plugins import (
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionPlugin,
    TopologyDescriptionRefusedError,
    TopologyDescriptionSubtopology,
)
from twisted_kafka.protocol.errors import (
    ErrorCode,
    GroupIdNotFoundError,
    InvalidRequestError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.messages.streams.streams_topology import StreamsGroupTopologyDescriptionUpdateRequest
from twisted_kafka.protocol.topic_partition import TopicPartition

SOURCE = TopologyDescriptionNode(name="s", node_type=1, source_topics=["t"], successors=["p"])
PROCESSOR = TopologyDescriptionNode(name="p", node_type=2, stores=["counts"])
DESCRIPTION = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[SOURCE, PROCESSOR])])


class Plugin(TopologyDescriptionPlugin):
    """Keeps descriptions in memory; ``failure`` is raised by the next call."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[int, TopologyDescription]] = {}
        self.failure: Exception | None = None
        self.configs: Mapping[str, str] = {}
        self.is_closed = False

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def _fail(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def set_topology(self, group_id: str, topology_epoch: int, description: TopologyDescription) -> None:
        self._fail()
        self.kept[group_id] = topology_epoch, description

    def get_topology(self, group_id: str, topology_epoch: int) -> Any:
        self._fail()
        epoch, description = self.kept.get(group_id, (-1, None))
        return description if epoch == topology_epoch else None

    def delete_topology(self, group_id: str) -> None:
        self._fail()
        self.kept.pop(group_id, None)

    def close(self) -> None:
        self.is_closed = True


def result(answer: Any) -> Any:
    return answer.result(0) if isinstance(answer, Future) else answer


class Described(Streams):
    """A streams group over a plug-in."""

    def __init__(self, **settings: Any) -> None:
        self.plugin = Plugin()
        super().__init__(plugin=self.plugin, **settings)

    def update(
        self, member_id: str = "m", epoch: int = 0, description: TopologyDescription = DESCRIPTION, group_id: str = G
    ) -> Any:
        request = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=group_id, member_id=member_id, topology_epoch=epoch, topology_description=description
        )
        return result(self.bench.groups.streams.update_description(request))

    def status(self, group_id: str = G) -> tuple[int, Any]:
        found = result(self.bench.groups.streams.describe(group_id, with_topology_description=True))
        return found.topology_description_status, found.topology_description

    def is_asked(self, member_id: str = "m", **fields: Any) -> bool:
        return self.ask(member_id, self.epochs[member_id], **fields).topology_description_required

    def stored(self) -> int:
        (shard,) = self.bench.runtime.peek()
        group = shard.store.streams(G)
        assert group is not None
        return group.basis.stored_description_epoch


def test_one_member_is_asked_and_describes_the_topology() -> None:
    streams = Described()
    assert streams.join("m").topology_description_required
    assert not streams.join("n").topology_description_required
    assert streams.status() == (1, None)
    assert streams.update().error_code == 0
    assert streams.status() == (3, DESCRIPTION)
    streams.bench.advance(FIRST_BACKOFF_MS)
    assert not streams.is_asked()


def test_a_description_outlives_a_restart() -> None:
    streams = Described()
    streams.join("m")
    streams.update()
    streams.bench.restart()
    assert streams.status() == (3, DESCRIPTION)
    assert not streams.is_asked()


def test_another_member_is_asked_when_nobody_answers() -> None:
    streams = Described()
    assert streams.join("m").topology_description_required
    streams.bench.clock.advance_ms(FIRST_BACKOFF_MS - 1)
    assert not streams.is_asked()
    streams.bench.clock.advance_ms(1)
    assert streams.is_asked()
    streams.bench.clock.advance_ms(2 * FIRST_BACKOFF_MS - 1)
    assert not streams.is_asked()
    streams.bench.clock.advance_ms(1)
    assert streams.is_asked()


def test_old_clients_and_members_with_an_old_topology_are_not_asked() -> None:
    streams = Described()
    assert not streams.join("m", version=0).topology_description_required
    assert streams.is_asked()
    streams = Described()
    streams.join("m", topology(subtopology("0", "t"), epoch=1), version=0)
    assert not streams.join("n", PLAIN).topology_description_required


def test_a_plugin_that_fails_is_asked_again_later() -> None:
    streams = Described()
    streams.join("m")
    streams.plugin.failure = OSError("no disk")
    answer = streams.update()
    assert (answer.error_code, answer.error_message) == (ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, "no disk")
    assert (streams.stored(), streams.status()) == (UNCERTAIN_EPOCH, (1, None))
    assert not streams.is_asked()
    streams.bench.clock.advance_ms(2 * FIRST_BACKOFF_MS)
    assert streams.is_asked()
    assert streams.update().error_code == 0
    assert streams.stored() == 0


def test_a_refused_description_is_not_asked_for_again() -> None:
    streams = Described()
    streams.join("m")
    streams.plugin.failure = TopologyDescriptionRefusedError("too large")
    answer = streams.update()
    assert (answer.error_code, answer.error_message) == (ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, "too large")
    streams.bench.clock.advance_ms(10 * FIRST_BACKOFF_MS)
    assert not streams.is_asked()


def test_updates_that_are_refused() -> None:
    streams = Described()
    with pytest.raises(GroupIdNotFoundError):
        streams.update()
    streams.join("m")
    for error, fields in (
        (UnknownMemberIdError, {"member_id": "x"}),
        (InvalidRequestError, {"member_id": ""}),
        (InvalidRequestError, {"group_id": ""}),
        (InvalidRequestError, {"epoch": 1}),
    ):
        with pytest.raises(error):
            streams.update(**fields)
    unknown = TopologyDescriptionNode(name="x", node_type=4)
    for description in (
        TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[unknown])]),
        TopologyDescription(global_stores=[TopologyDescriptionGlobalStore(source=PROCESSOR, processor=SOURCE)]),
    ):
        with pytest.raises(InvalidRequestError):
            streams.update(description=description)
    assert (streams.stored(), streams.plugin.kept) == (-1, {})


def test_a_description_that_cannot_be_read_or_is_gone() -> None:
    streams = Described()
    streams.join("m")
    streams.update()
    streams.plugin.failure = OSError("no disk")
    assert streams.status() == (2, None)
    streams.plugin.kept[G] = 0, "text"  # type: ignore[assignment]
    assert streams.status() == (2, None)
    streams.plugin.kept.clear()
    assert streams.status() == (1, None)


def test_a_deleted_group_takes_its_description_with_it() -> None:
    streams = Described()
    streams.join("m")
    streams.update()
    assert result(streams.bench.groups.delete_group(G)) == ErrorCode.NON_EMPTY_GROUP
    assert G in streams.plugin.kept
    streams.leave("m")
    streams.plugin.failure = OSError("no disk")
    assert result(streams.bench.groups.delete_group(G)) == ErrorCode.GROUP_DELETION_FAILED
    assert (streams.stored(), G in streams.plugin.kept) == (UNCERTAIN_EPOCH, True)
    assert result(streams.bench.groups.delete_group(G)) == ErrorCode.NONE
    assert streams.plugin.kept == {}
    assert result(streams.bench.groups.delete_group(G)) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_without_members_and_offsets_expires_after_its_description() -> None:
    streams = Described()
    streams.join("m")
    streams.update()
    streams.leave("m")
    streams.plugin.failure = OSError("no disk")
    groups = streams.bench.groups
    groups.expire_offsets()
    assert [each.group_id for each in groups.list_groups((), ())[1]] == [G]
    groups.expire_offsets()
    assert streams.plugin.kept == {}
    groups.expire_offsets()
    assert groups.list_groups((), ())[1] == []


def test_a_description_stays_while_the_group_has_offsets() -> None:
    streams = Described()
    streams.join("m")
    streams.update()
    streams.leave("m")
    value = OffsetCommitValue(offset=1, commit_timestamp=streams.bench.clock.wall_ms())
    streams.bench.groups.commit_offsets(Sender(G), {TopicPartition("t", 0): value}, 9)
    streams.bench.groups.expire_offsets()
    assert streams.status() == (3, DESCRIPTION)


def test_a_streams_group_that_becomes_a_classic_one_loses_its_description() -> None:
    streams = Described()
    streams.join("m")
    streams.update()
    streams.leave("m")
    streams.plugin.failure = OSError("no disk")
    assert result(streams.bench.groups.join(join(G))).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert G in streams.plugin.kept
    streams.bench.groups.join(join(G))
    assert streams.plugin.kept == {}
    assert [each.group_type for each in streams.bench.groups.list_groups((), ())[1]] == ["classic"]


def test_the_plugin_is_closed_with_the_coordinator() -> None:
    streams = Described()
    streams.bench.groups.shutdown()
    assert streams.plugin.is_closed


def test_without_a_plugin_no_member_is_asked() -> None:
    bench = Streams()
    assert not bench.join("m", WORDS).topology_description_required
    with pytest.raises(UnsupportedVersionError, match="no streams group topology description plugin"):
        bench.bench.groups.streams.update_description(StreamsGroupTopologyDescriptionUpdateRequest(group_id=G, member_id="m"))


def test_the_plugin_is_loaded_and_configured() -> None:
    name = f"{__name__}.Plugin"
    bench = Bench()
    parts = bench.clock, bench.environment.metrics
    assert make_topology_descriptions(BROKER_CONFIG, *parts) is None
    assert make_topology_descriptions(BROKER_CONFIG.updated({KEY: name}), *parts) is not None
    for wrong in ("no.such.Class", f"{__name__}.Described"):
        with pytest.raises(ConfigError, match=KEY):
            make_topology_descriptions(BROKER_CONFIG.updated({KEY: wrong}), *parts)


def test_metrics_count_what_the_plugin_is_asked() -> None:
    streams = Described()
    streams.join("m")
    streams.plugin.failure = ValueError("disk")
    streams.update()
    streams.update()
    streams.status()
    streams.plugin.failure = ValueError("disk")
    streams.status()
    streams.ask("m", -1)
    streams.plugin.failure = ValueError("disk")
    streams.bench.groups.streams.forget_unused_descriptions()
    streams.bench.groups.streams.forget_unused_descriptions()
    streams.bench.groups.streams.forget_unused_descriptions()
    counts = [
        streams.bench.metrics.value(COORDINATOR_TYPE, f"streams-group-topology-description-{name}-count")
        for name in (
            *("set-success", "set-error", "get-success", "get-error", "delete-success", "delete-error"),
            *("cleanup-cycle", "cleanup-eligible"),
        )
    ]
    assert counts == [1, 1, 1, 1, 1, 1, 3, 2]
