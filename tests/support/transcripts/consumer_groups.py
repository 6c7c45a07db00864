"""The commands of the consumer protocol (KIP-848) in transcripts.

> topics t=4 u=2             the cluster's topics and their partitions, from now on
> beat a topics=t            client "a" joins with that subscription; without options it sends what it is in
a: epoch 1, t:0,1,2,3        the answer: its epoch, and its assignment if there is one in it
> beat a ack                 it reports that it has exactly what it was told to have
> bye a                      it leaves; "away a" is a static member's leave for a while
> group                      how the group is described
[consumer Stable 1/1]        the group's state, its epoch and its target's, whenever they change
"""

from concurrent.futures import Future
from typing import Any

from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Client, Sender
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from twisted_kafka.protocol.messages.coordinators.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

GROUP = "g"


def shown(partitions: dict[bytes, list[int]], names: dict[bytes, str]) -> str:
    """Partitions by topic id, as text: ``t:0,1 u:2``."""
    topics = sorted((names.get(topic_id, "?"), sorted(indexes)) for topic_id, indexes in partitions.items() if indexes)
    return " ".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in topics) or "nothing"


def parsed(text: str) -> dict[str, list[int]]:
    """The other way: topics with their partitions."""
    found = {}
    for topic in filter(None, text.split("/")):
        name, _, indexes = topic.partition(":")
        found[name] = [int(index) for index in indexes.split(",")]
    return found


def subscription(topics: str, owned: str = "") -> bytes:
    """The bytes that a consumer of the classic protocol subscribes with."""
    message = ConsumerProtocolSubscription(
        topics=list(filter(None, topics.split(","))),
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=indexes) for topic, indexes in parsed(owned).items()
        ],
    )
    return b"\0\1" + message.encode(1)


class Modern:
    """A client of the consumer protocol: it makes its id up itself, and does not forget what it was told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = name
        self.instance_id: Any = None
        self.epoch = 0
        self.assigned: dict[Any, Any] = {}


class ConsumerCommands:
    """Mixed into Transcript."""

    bench: Any
    moderns: dict[str, Any]
    offsets: Any
    say: Any
    answered: Any

    def modern(self, name: str) -> Modern:
        return self.moderns.setdefault(name, Modern(name))

    def ids(self, topics: dict[str, list[int]]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions | Any]:
        """Partitions by name as a request lists them."""
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=self.bench.topics.snapshot.topic_ids.get(name, name.encode().ljust(16, b".")), partitions=indexes
            )
            for name, indexes in topics.items()
        ]

    def do_topics(self, names: list[Any], options: dict[str, str]) -> None:
        self.bench.topics.change({name: int(count) for name, count in options.items()})

    def do_beat(self, names: list[str], options: dict[str, str]) -> None:
        client = self.modern(names[0])
        client.instance_id = options.get("instance", client.instance_id)
        client.epoch = int(options.get("epoch", client.epoch))
        client.member_id = options.get("member", client.member_id)
        request = ConsumerGroupHeartbeatRequest(
            group_id=options.get("group", GROUP),
            member_id=client.member_id,
            member_epoch=client.epoch,
            instance_id=client.instance_id,
            rack_id=options.get("rack"),
            rebalance_timeout_ms=int(options.get("timeout", 60_000 if client.epoch == 0 else -1)),
            subscribed_topic_names=list(filter(None, options["topics"].split(","))) if "topics" in options else None,
            subscribed_topic_regex=options.get("regex"),
            server_assignor=options.get("assignor"),
        )
        if "owns" in options:
            request.topic_partitions = self.ids(parsed(options["owns"]))
        elif client.epoch == 0:
            request.topic_partitions = []
        elif "ack" in names:
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in client.assigned.items()
            ]
        self.send(client, request, int(options.get("version", 1)))

    def send(self, client: Modern, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> None:
        names = dict(self.bench.topics.snapshot.topic_names)

        def tell(answer: Any) -> None:
            if answer.error_code:
                self.say(f"{client.name}: {ErrorCode(answer.error_code).name}")
                return
            client.epoch = max(answer.member_epoch, 0)
            client.member_id = answer.member_id
            text = f"{client.name}: epoch {answer.member_epoch}"
            if answer.member_id != client.name:
                text += f" as {answer.member_id}"
            if answer.assignment is not None:
                client.assigned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
                text += f", {shown(client.assigned, names)}"
            self.say(text)

        try:
            answer = self.bench.groups.consumer_heartbeat(request, Client(client.name, "/host"), version)
        except KafkaError as error:
            self.say(f"{client.name}: {error.code.name}: {error}")
            return
        self.answered(answer, tell)

    def do_bye(self, names: list[str], options: dict[Any, Any]) -> None:
        self.leave_with(LEAVE_EPOCH, names, options)

    def do_away(self, names: list[str], options: dict[Any, Any]) -> None:
        self.leave_with(STATIC_LEAVE_EPOCH, names, options)

    def leave_with(self, epoch: int, names: list[str], options: dict[Any, Any]) -> None:
        client = self.modern(names[0])
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=options.get("member", client.member_id), member_epoch=epoch, instance_id=client.instance_id
        )
        self.send(client, request)

    def do_group(self, names: list[Any | str], options: dict[Any, Any]) -> None:
        described = self.bench.groups.describe_consumer_group(names[0] if names else GROUP)
        if isinstance(described, Future):
            self.say("(waits)")
            return
        if described.error_code:
            self.say(f"{ErrorCode(described.error_code).name}: {described.error_message}")
            return
        self.say(f"{described.group_state} {described.group_epoch}/{described.assignment_epoch} {described.assignor_name}")
        topic_names: dict[Any, Any] = {}
        for member in described.members:
            sides = []
            for assignment in (member.assignment, member.target_assignment):
                topic_names |= {each.topic_id: each.topic_name for each in assignment.topic_partitions}
                sides.append(shown({each.topic_id: each.partitions for each in assignment.topic_partitions}, topic_names))
            kind = "classic" if member.member_type == 0 else "consumer"
            self.say(
                f"  {member.member_id} {member.instance_id or '-'} {kind} epoch {member.member_epoch}: {sides[0]} -> {sides[1]}"
            )

    def do_commits(self, names: list[str], options: dict[str, str]) -> None:
        """A member of the consumer protocol commits in its epoch, or in the one given."""
        client = self.modern(names[0])
        version = int(options.pop("version", 9))
        sender = Sender(GROUP, options.pop("member", client.member_id), None, int(options.pop("epoch", client.epoch)))
        self.answered(
            self.bench.groups.commit_offsets(sender, self.offsets(options), version),
            lambda error: self.say(f"{client.name} commits: {error.name}"),
        )

    def do_fetches(self, names: list[str], options: dict[str, str]) -> None:
        """A member of the consumer protocol fetches its offsets."""
        client = self.modern(names[0])
        sender = Sender(GROUP, options.get("member", client.member_id), None, int(options.get("epoch", client.epoch)))
        error, found = self.bench.groups.fetch_offsets(OffsetFetch(sender, None))
        self.say(
            f"{client.name} fetches: {error.name} " + " ".join(f"{key}={value.offset}" for key, value in sorted(found.items()))
        )

    def do_groupconfig(self, names: list[Any], options: dict[str, str]) -> None:
        """Settings of the group's own."""
        self.bench.group_config_manager.update(GROUP, {key.replace("_", "."): value for key, value in options.items()})
