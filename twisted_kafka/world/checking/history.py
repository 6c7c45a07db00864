"""What the clients of a world asked, and what its brokers answered: the material of the checks."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.world.checking.assignments import Assignments
from twisted_kafka.world.checking.broken import Broken
from twisted_kafka.world.checking.deliveries import Deliveries
from twisted_kafka.world.checking.offsets import Offsets
from twisted_kafka.world.checking.produced import Produced

MOST_BROKEN: Final = 1000
_SHRINKING: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
_REWRITING: Final = ("compression.type", "message.timestamp.type")


class _Noted(NamedTuple):
    key: ApiKey
    request: Any
    more: Any
    client_id: str


class History:
    """Gets each exchange of the watched APIs."""

    apis = frozenset(
        {
            ApiKey.PRODUCE,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.DELETE_RECORDS,
            ApiKey.DELETE_GROUPS,
            ApiKey.OFFSET_DELETE,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.END_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        }
    )

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.broken: deque[Broken] = deque(maxlen=MOST_BROKEN)
        """What an answer alone has shown."""
        self.produced = Produced()
        self.offsets = Offsets(self.broken.append)
        self.assignments = Assignments(self.broken.append, now_ns)
        self.deliveries = Deliveries(self.broken.append)
        self.deleted: set[str] = set()
        """Topics that were deleted: nothing more is promised about them."""
        self.shrinking: set[str] = set()
        """Topics whose records may be deleted or compacted."""
        self.rewritten: set[str] = set()
        """Topics whose leader may change a batch."""

    def asked(self, client_id: str, key: ApiKey, request: Message) -> _Noted:
        """Note a request."""
        noted: Any = request
        more: Any = None
        match key:
            case ApiKey.OFFSET_COMMIT | ApiKey.OFFSET_FETCH | ApiKey.TXN_OFFSET_COMMIT:
                more = self.offsets.asked(client_id, request)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT | ApiKey.STREAMS_GROUP_HEARTBEAT:
                more = self.assignments.beats(noted)
            case ApiKey.CREATE_TOPICS:
                for topic in noted.topics:
                    self._configured(topic.name, [config.name for config in topic.configs])
            case ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS:
                for resource in noted.resources:
                    self._configured(resource.resource_name, [config.name for config in resource.configs])
            case ApiKey.DELETE_TOPICS:
                for name in (*noted.topic_names, *[topic.name for topic in noted.topics if topic.name]):
                    self._delete(name)
            case ApiKey.DELETE_RECORDS:
                self.shrinking |= {topic.name for topic in noted.topics}
            case ApiKey.DELETE_GROUPS:
                for group in noted.groups_names:
                    self.offsets.forget(group=group)
                    self.assignments.forget(group)
                    self.deliveries.forget(group)
            case ApiKey.ALTER_SHARE_GROUP_OFFSETS | ApiKey.DELETE_SHARE_GROUP_OFFSETS:
                self.deliveries.forget(noted.group_id)
            case ApiKey.OFFSET_DELETE:
                self.offsets.forget(group=noted.group_id)
            case _:
                pass
        return _Noted(key, request, more, client_id)

    def answered(self, noted: _Noted, response: Message) -> None:
        """Note an answer."""
        answer: Any = response
        match noted.key:
            case ApiKey.PRODUCE:
                self.produced.produced(noted.client_id, noted.request, answer, self._now_ns())
            case ApiKey.END_TXN:
                self.produced.ended(noted.request, answer)
            case ApiKey.INIT_PRODUCER_ID:
                self.produced.began(noted.request, answer)
            case ApiKey.JOIN_GROUP:
                self.assignments.joined(noted.request, answer)
            case ApiKey.SYNC_GROUP:
                self.assignments.synced(noted.request, answer)
            case ApiKey.SHARE_FETCH:
                self.deliveries.fetched(noted.request, answer)
            case ApiKey.SHARE_ACKNOWLEDGE:
                self.deliveries.acknowledged(noted.request, answer)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT | ApiKey.STREAMS_GROUP_HEARTBEAT:
                self.assignments.beaten(noted.more, answer)
            case ApiKey.OFFSET_COMMIT | ApiKey.OFFSET_FETCH | ApiKey.TXN_OFFSET_COMMIT:
                self.offsets.answered(noted.more, answer)
            case _:
                pass

    def _configured(self, topic: str, names: list[str]) -> None:
        if any(name in _SHRINKING for name in names):
            self.shrinking.add(topic)
        if any(name in _REWRITING for name in names):
            self.rewritten.add(topic)

    def _delete(self, topic: str) -> None:
        self.deleted.add(topic)
        self.produced.forget(topic)
        self.offsets.forget(topic=topic)
