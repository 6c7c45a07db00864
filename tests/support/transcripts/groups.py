"""Runs a transcript: lines with ``> `` are commands, the lines below each are what it must bring about.

    > join a                     client "a" joins group g: a new member unless it has an id already
    a joins: MEMBER_ID_REQUIRED as a-id1
    > advance 3000               three seconds pass
    [PreparingRebalance 0]       the group's state and generation, whenever they change

``REWRITE_TRANSCRIPTS=1 pytest tests/coordinator`` writes what really happens into the files: read the difference.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.support.coordinator_fakes import Bench
from tests.support.transcripts.consumer_groups import ConsumerCommands, parsed, subscription
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import JoinRequest, LeavingMember, Sender, SyncRequest
from twisted_kafka.group_coordinator.shared.group_coordinator_config import MigrationPolicy
from twisted_kafka.group_coordinator.state.classic_group_member import MemberTerms
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.subscription import decode_assignment, encode_assignment, subscribed_topics
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import GroupMetadataValue, OffsetCommitValue
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition

GROUP = "g"
OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.options: dict[Any, Any] = {}


class Transcript(ConsumerCommands):
    """One scenario's coordinator and clients."""

    def __init__(self) -> None:
        self.bench: Any = None
        self.settings: dict[Any, Any] = {}
        self.clients: dict[Any, Any] = {}
        self.moderns: dict[Any, Any] = {}
        self.lines: list[Any] = []
        self.waiting: list[Any] = []
        self.state: Any = None
        self.read_records = 0

    def run(self, command: str) -> list[Any | str]:
        """Run one command; returns the lines that it brought about."""
        self.lines = []
        word, *rest = command.split()
        positional = [item for item in rest if "=" not in item or item.startswith("=")]
        options = dict(item.split("=", 1) for item in rest if "=" in item)
        if word == "config":
            self.settings = {key: setting(value) for key, value in options.items()}
            return []
        if self.bench is None:
            self.bench = Bench(**self.settings)
        getattr(self, f"do_{word}")(positional, options)
        self.collect()
        return self.lines

    def say(self, text: str) -> None:
        self.lines.append(text.rstrip())

    def client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def answered(self, result: Any, tell: Callable[..., Any]) -> None:
        if isinstance(result, Future):
            self.waiting.append((result, tell))
        else:
            tell(result)

    def collect(self) -> None:
        left = []
        for future, tell in self.waiting:
            if future.done():
                tell(future.result())
            else:
                left.append((future, tell))
        self.waiting = left
        shard = self.bench.runtime._contexts.get(0)
        group = shard.shard.store.groups.get(GROUP) if shard is not None else None
        if isinstance(group, ConsumerGroup):
            state = f"[consumer {group.state.value} {group.epoch}/{group.target_epoch}]"
        else:
            state = None if group is None else f"[{group.state.value} {group.generation}]"
        if state != self.state:
            self.say(state or "[none]")
            self.state = state

    # commands

    def do_join(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0])
        client.options |= options
        options = client.options
        group_id = options.pop("group", GROUP)
        member_id = options.pop("member", client.member_id)
        session_ms = int(options.get("session", 10_000))
        wanted = subscription(options["topics"], options.pop("owns", "")) if "topics" in options else None
        protocols = tuple(
            (name, metadata.encode() if wanted is None else wanted)
            for name, _, metadata in (item.partition(":") for item in options.get("protocols", "range").split(",") if item)
        )
        terms = MemberTerms(
            client.name, "/host", int(options.get("rebalance", 60_000)), session_ms, options.get("type", "consumer"), protocols
        )
        version = int(options.get("version", 9))
        instance = options.get("instance")
        request = JoinRequest(group_id, member_id, instance, terms, version >= 4 and instance is None, version >= 9)

        def tell(result: Any) -> None:
            if not result.error or result.error == ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = result.member_id
            if result.error:
                suffix = f" as {result.member_id}" if result.member_id else ""
                self.say(f"{client.name} joins: {result.error.name}{suffix}")
                return
            client.generation = result.generation
            members = " ".join(
                f"{member.member_id}{'/' + member.instance_id if member.instance_id else ''}={read_metadata(member.metadata)}"
                for member in result.members
            )
            skip = " skips assignment" if result.skip_assignment else ""
            protocol = f"{result.protocol_type}/{result.protocol}"
            self.say(
                f"{client.name} joined as {result.member_id}: generation {result.generation} {protocol}"
                f" led by {result.leader}{skip}{' of ' + members if members else ''}"
            )

        self.answered(self.bench.groups.join(request), tell)

    def do_sync(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0])
        assignments = {}
        for item in filter(None, options.get("assign", "").split(",")):
            name, _, part = item.partition(":")
            assignments[self.client(name).member_id] = part.encode()
        for item in filter(None, options.get("give", "").split(";")):
            name, _, part = item.partition("=")
            assignments[self.client(name).member_id] = encode_assignment(parsed(part), 1)
        request = SyncRequest(self.sender(client, options), options.get("type"), options.get("protocol"), assignments)
        result = self.bench.groups.sync(request)

        def tell(result: Any) -> None:
            self.say(
                f"{client.name} syncs: {result.error.name if result.error else read_assignment(result.assignment) or '(nothing)'}"
            )

        self.answered(result, tell)

    def sender(self, client: Client, options: dict[str, str]) -> Sender:
        return Sender(
            options.get("group", GROUP),
            options.get("member", client.member_id),
            options.get("instance", client.options.get("instance")),
            int(options.get("generation", client.generation)),
        )

    def do_heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0])
        error = self.bench.groups.heartbeat(self.sender(client, options))
        self.say(f"{client.name} heartbeats: {error.name}")

    def do_leave(self, names: list[str], options: dict[str, str]) -> None:
        leaving = [LeavingMember(self.client(name).member_id, self.client(name).options.get("instance")) for name in names]
        if "instance" in options:
            leaving.append(LeavingMember("", options["instance"]))

        def tell(answer: Any) -> None:
            error, left = answer
            if error:
                self.say(f"leave: {error.name}")
            for member in left:
                self.say(f"{member.member_id or member.instance_id} leaves: {member.error.name}")

        self.answered(self.bench.groups.leave(options.get("group", GROUP), leaving), tell)

    def do_commit(self, names: list[Any | str], options: dict[str, str]) -> None:
        client = self.client(names[0]) if names else None
        generation = int(options.pop("generation", client.generation if client else -1))
        member_id = options.pop("member", client.member_id if client else "")
        instance = options.pop("instance", client.options.get("instance") if client else None)
        expire_ms = int(options.pop("retention", -1))
        now_ms = self.bench.clock.wall_ms()
        offsets = self.offsets(options, -1 if expire_ms == -1 else now_ms + expire_ms)
        who = client.name if client else "somebody"
        self.answered(
            self.bench.groups.commit_offsets(Sender(GROUP, member_id, instance, generation), offsets, 9),
            lambda error: self.say(f"{who} commits: {error.name}"),
        )

    def offsets(self, named: dict[str, str], expire_ms: int = -1) -> dict[TopicPartition, OffsetCommitValue]:
        now_ms = self.bench.clock.wall_ms()
        return {
            partition(name): OffsetCommitValue(offset=int(offset), commit_timestamp=now_ms, expire_timestamp=expire_ms)
            for name, offset in named.items()
        }

    def do_txncommit(self, names: list[str], options: dict[str, str]) -> None:
        """A producer commits offsets in its transaction, for a member of the group if ``member`` and ``generation`` are given."""
        sender = Sender(GROUP, options.pop("member", ""), options.pop("instance", None), int(options.pop("generation", -1)))
        producer = Producer(int(names[0]), 0)
        self.answered(
            self.bench.groups.commit_transactional_offsets(sender, producer, None, self.offsets(options)),
            lambda error: self.say(f"producer {names[0]} commits: {error.name}"),
        )

    def do_end(self, names: list[str], options: dict[Any, Any]) -> None:
        """A producer's transaction ends: its marker is in the log."""
        committed = names[1] == "commit"
        self.answered(
            self.bench.groups.end_transaction(0, Producer(int(names[0]), 0), 0, committed),
            lambda error: error and self.say(f"the marker of producer {names[0]}: {error.name}"),
        )

    def do_fetch(self, names: list[Any | str], options: dict[str, str]) -> None:
        def tell(result: Any) -> None:
            error, offsets = result
            shown = [
                f"{key}={value.name if isinstance(value, ErrorCode) else value and value.offset}" for key, value in offsets.items()
            ]
            self.say(f"offsets: {error.name if error else ' '.join(sorted(shown)) or '(none)'}")

        self.answered(
            self.bench.groups.fetch_offsets(
                OffsetFetch(Sender(GROUP), [partition(name) for name in names] or None, "stable" in options)
            ),
            tell,
        )

    def do_forget(self, names: list[str], options: dict[Any, Any]) -> None:
        def tell(result: Any) -> None:
            error, results = result
            self.say(error.name if error else " ".join(f"{key}={code.name}" for key, code in results.items()))

        self.answered(self.bench.groups.delete_offsets(GROUP, [partition(name) for name in names]), tell)

    def do_describe(self, names: list[Any], options: dict[Any, Any]) -> None:
        def tell(described: Any) -> None:
            self.say(f"{described.error.name} {described.state} {described.protocol_type}/{described.protocol}")
            for member in described.members:
                self.say(
                    f"  {member.member_id} {member.instance_id or '-'} {member.client_id} {member.client_host}"
                    f" {read_metadata(member.metadata) or '-'} {read_assignment(member.assignment) or '-'}"
                )

        self.answered(self.bench.groups.describe_group(GROUP), tell)

    def do_list(self, names: list[Any], options: dict[str, str]) -> None:
        def tell(answer: Any) -> None:
            error, listings = answer
            self.say(
                f"{error.name} "
                + " ".join(f"{one.group_id}:{one.protocol_type}:{one.group_state}:{one.group_type}" for one in listings)
            )

        states, types = (filter(None, options.get(name, "").split(",")) for name in ("states", "types"))
        self.answered(self.bench.groups.list_groups(states, types), tell)

    def do_delete(self, names: list[Any], options: dict[Any, Any]) -> None:
        self.answered(self.bench.groups.delete_group(GROUP), lambda error: self.say(f"deleted: {error.name}"))

    def do_advance(self, names: list[str], options: dict[Any, Any]) -> None:
        """Let milliseconds pass; the clients named after them heartbeat every second meanwhile."""
        left = int(names[0])
        while left > 0:
            for name in names[1:]:
                client = self.client(name)
                self.bench.groups.heartbeat(self.sender(client, {}))
            self.bench.advance(min(left, 1000))
            left -= 1000
            self.collect()

    def do_restart(self, names: list[Any | str], options: dict[Any, Any]) -> None:
        self.bench.restart(load=False)
        self.bench.elect(load="unloaded" not in names)

    def do_shrink(self, names: list[str], options: dict[Any, Any]) -> None:
        """Restart with a lower group.max.size."""
        self.bench.config = self.bench.config._replace(max_size=int(names[0]))
        self.bench.restart()

    def do_load(self, names: list[Any], options: dict[Any, Any]) -> None:
        self.bench.scheduler.run_due()

    def do_resign(self, names: list[Any], options: dict[Any, Any]) -> None:
        self.bench.groups.runtime.on_leadership_change([], [(0, 0)])

    def do_elect(self, names: list[Any], options: dict[str, str]) -> None:
        self.bench.elect(epoch=int(options.get("epoch", 1)))

    def do_fail(self, names: list[str], options: dict[Any, Any]) -> None:
        """Let the next append fail."""
        self.bench.log.fail_next.append(ErrorCode[names[0]])

    def do_hold(self, names: list[Any], options: dict[Any, Any]) -> None:
        """Let appends wait for replicas from now on."""
        self.bench.log.holds = True

    def do_release(self, names: list[Any | str], options: dict[Any, Any]) -> None:
        """Let the replicas answer."""
        self.bench.log.release(ErrorCode[names[0]] if names else ErrorCode.NONE)

    def do_log(self, names: list[Any], options: dict[Any, Any]) -> None:
        """Show the records written since the last look."""
        records = self.bench.written()
        for record in records[self.read_records :]:
            self.say(f"  {show(record)}")
        self.read_records = len(records)


def read_metadata(data: bytes) -> str:
    """What a member subscribes with as text; topics if it's the consumer protocol's."""
    return "+".join(sorted(subscribed_topics(data))) if data.startswith(b"\0") else data.decode()


def read_assignment(data: bytes) -> str:
    """What a member was assigned as text; partitions if it's the consumer protocol's."""
    if not data.startswith(b"\0"):
        return data.decode()
    topics = decode_assignment(data).assigned_partitions
    return " ".join(f"{each.topic}:{','.join(map(str, each.partitions))}" for each in topics)


def setting(text: str) -> MigrationPolicy | int | str:
    try:
        return int(text)
    except ValueError:
        return MigrationPolicy(text) if text in [policy.value for policy in MigrationPolicy] else text


def partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def show(record: CoordinatorRecord) -> str:
    key, value = record.key, record.value
    if type(key).__name__.startswith("ConsumerGroup"):
        of = getattr(key, "member_id", None) or getattr(key, "regular_expression", None) or key.group_id
        return f"{type(key).__name__.removesuffix('Key')} of {of}{': tombstone' if value is None else ''}"
    if hasattr(key, "topic"):
        what = f"offset of {key.group} in {key.topic}-{key.partition}"
        return f"{what}: {'tombstone' if value is None else value.offset}"
    if value is None:
        return f"group {key.group}: tombstone"
    assert isinstance(value, GroupMetadataValue)
    members = " ".join(f"{member.member_id}={read_assignment(member.assignment)}" for member in value.members)
    protocol = f"{value.protocol_type}/{value.protocol}"
    return f"group {key.group}: generation {value.generation} {protocol} led by {value.leader} of {members or 'nobody'}"
