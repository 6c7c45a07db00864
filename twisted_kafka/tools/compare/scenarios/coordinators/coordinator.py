"""The transaction coordinator's APIs: what producers ask of it, what administrators do, and every way to ask wrongly."""

from typing import Any

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeTransactionsRequest, ListTransactionsRequest
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.data_requests import fetch, produce
from twisted_kafka.tools.compare.scenarios.coordinators.transactions import offsets, txn_commit, verify
from twisted_kafka.tools.compare.talk import Talk, scenario

NOW_MS = 1_700_000_000_000
INIT_VERSION = 5
NOBODY = 1 << 40
"""A producer id that no broker has given out yet."""


class TxnProducer:
    """A producer with a transactional id, as the broker knows it."""

    def __init__(self, talk: Talk, name: str, timeout_ms: int = 60_000) -> None:
        self.talk = talk
        self.transactional_id = talk.topic(name)
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1

    def init(self, version: int = INIT_VERSION, **fields: Any) -> Any:
        """Ask for an id and epoch, again while the last transaction ends."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms, **fields)
        answer = settled(self.talk, request, version)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def continuing(self, epoch: int | None = None) -> dict[str, int]:
        """Return the fields of an InitProducerId that says what this producer is."""
        return {"producer_id": self.producer_id, "producer_epoch": self.epoch if epoch is None else epoch}

    def _identity(self, fields: dict[str, Any]) -> dict[str, Any]:
        own = {"transactional_id": self.transactional_id, "producer_id": self.producer_id, "producer_epoch": self.epoch}
        return own | fields

    def add(self, version: int, topics: dict[str, list[int]], *, verify_only: bool = False, **fields: Any) -> Any:
        own = self._identity(fields)
        entries = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
        if version < 4:
            old = {f"v3_and_below_{key}": value for key, value in own.items()}
            request = AddPartitionsToTxnRequest(**old, v3_and_below_topics=entries)
        else:
            request = AddPartitionsToTxnRequest(
                transactions=[AddPartitionsToTxnTransaction(**own, topics=entries, verify_only=verify_only)]
            )
        return settled(self.talk, request, version)

    def add_offsets(self, version: int, group: str, **fields: Any) -> Any:
        return settled(self.talk, AddOffsetsToTxnRequest(**self._identity(fields), group_id=group), version)

    def end(self, version: int, committed: bool = True, **fields: Any) -> Any:
        return settled(self.talk, EndTxnRequest(**self._identity(fields), committed=committed), version)

    def produce(self, topic: str, sequence: int = 0, partition: int = 0, epoch: int | None = None, version: int = 9) -> None:
        batch = build_batch(
            [SimpleRecord(NOW_MS, b"k", b"v")],
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        request = produce(topic, batch, partition)
        request.transactional_id = self.transactional_id
        self.talk.ask(request, version)

    def describe(self) -> None:
        """Note the state, once no marker is being written."""

        def settled_state() -> Any:
            answer = self.talk.ask(DescribeTransactionsRequest(transactional_ids=[self.transactional_id]), 0, note=False)
            [state] = answer.transaction_states
            return None if state.transaction_state.startswith("Prepare") else state

        state = self.talk.until(settled_state, f"the transaction of {self.transactional_id} does not end")
        topics = sorted((each.topic, sorted(each.partitions)) for each in state.topics)
        has_begun = state.transaction_start_time_ms >= 0
        self.talk.answers.append(
            (
                "described",
                [state.error_code, state.transaction_state, state.producer_epoch, state.transaction_timeout_ms, has_begun],
            )
        )
        self.talk.answers.append(("partitions", [list(each) for each in topics]))


def settled(talk: Talk, request: Message, version: int) -> Any:
    """Ask until the last transaction has ended: Kafka writes markers after it has answered."""
    passing = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}

    def lasting() -> tuple[Any] | None:
        answer = talk.ask(request, version)
        if not passing & set(codes(answer)):
            return (answer,)  # it is None if the broker closed the connection, which lasts, too
        talk.answers.pop()
        return None

    (answer,) = talk.until(lasting, f"{type(request).__name__} gets a passing error only")
    return answer


def codes(answer: Any) -> list[int]:
    found = [getattr(answer, "error_code", 0)]
    topics = list(getattr(answer, "results_by_topic_v3_and_below", []))
    for each in getattr(answer, "results_by_transaction", []):
        topics += each.topic_results
    return found + [each.partition_error_code for topic in topics for each in topic.results_by_partition]


def committed(talk: Talk, topic: str, partition: int = 0) -> None:
    """Note what a reader of committed records gets; not when the markers were written."""
    part = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1_000_000)
    [answer] = talk.ask(fetch(topic, part, isolation_level=1), 11, note=False).responses[0].partitions
    records = [[each.offset, each.key, each.value] for batch in batches(answer.records) for each in batch.records()]
    aborted = [[each.first_offset] for each in answer.aborted_transactions or ()]
    talk.answers.append(("committed", [answer.error_code, answer.high_watermark, answer.last_stable_offset, records, aborted]))


@scenario(InitProducerIdRequest)
def transactional_producers(talk: Talk, version: int) -> None:
    """New ones, ones that come again, and ones that find an open transaction."""
    topic = talk.create("t")
    for timeout_ms in (0, -1, 2**31 - 1, 900_001, 900_000, 1):
        TxnProducer(talk, f"timeout{timeout_ms}", timeout_ms).init(version)
    producer = TxnProducer(talk, "tx")
    for _ in range(3):
        producer.init(version)
        producer.describe()
    producer.add(3, {topic: [0]})
    producer.produce(topic)
    producer.timeout_ms = 30_000
    producer.init(version)
    producer.describe()
    committed(talk, topic)


@scenario(InitProducerIdRequest, since=3)
def producers_that_continue(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    producer = TxnProducer(talk, "tx")
    producer.init(version, producer_id=NOBODY, producer_epoch=3)
    first = producer.continuing()
    producer.init(version, **first)
    producer.init(version, **first)
    producer.init(version, **producer.continuing())
    producer.init(version, **first)
    producer.init(version, producer_id=NOBODY, producer_epoch=0)
    producer.init(version, producer_id=NOBODY, producer_epoch=32_766)
    producer.init(version, **producer.continuing(9))
    producer.init(version)
    producer.init(version, **first)
    for fields in ({"producer_id": 5}, {"producer_epoch": 5}, {"producer_id": -2, "producer_epoch": -2}):
        producer.init(version, **fields)
    producer.add(3, {topic: [0]})
    producer.init(version, **producer.continuing(9))
    producer.describe()
    producer.init(version, **first)
    producer.describe()
    producer.init(version, **producer.continuing())
    producer.init(version)
    producer.describe()


@scenario(AddPartitionsToTxnRequest)
def add_partitions_to_txn(talk: Talk, version: int) -> None:
    topic, other = talk.create("t", 3), talk.create("u")
    producer = TxnProducer(talk, "tx")
    producer.add(version, {topic: [0]}, producer_id=NOBODY, producer_epoch=0)
    producer.init()
    producer.add(version, {topic: [0, 1]})
    producer.add(version, {topic: [1], other: [0]})
    producer.add(version, {topic: [1, 1]})
    producer.describe()
    producer.add(version, {topic: [0, 3], other: [0]})
    producer.add(version, {topic: [2], "no." + topic: [0, 1]})
    producer.add(version, {topic: [-1]})
    producer.add(version, {"": [0], "a/b": [0]})
    producer.add(version, {})
    producer.add(version, {topic: []})
    producer.add(version, {topic: [2]}, producer_epoch=5)
    producer.add(version, {topic: [2]}, producer_epoch=-1)
    producer.add(version, {topic: [2]}, producer_id=NOBODY)
    producer.add(version, {topic: [2]}, producer_id=-1, producer_epoch=-1)
    producer.add(version, {topic: [2]}, transactional_id="")
    producer.add(version, {topic: [2]}, transactional_id=talk.topic("nobody"))
    producer.add(version, {"__consumer_offsets": [0], "__transaction_state": [0]})
    producer.describe()
    producer.end(3)
    producer.add(version, {topic: [2]})
    producer.describe()
    producer.end(3, False)


@scenario(AddPartitionsToTxnRequest)
def transactions_without_partitions(talk: Talk, version: int) -> None:
    producer = TxnProducer(talk, "tx")
    producer.init()
    producer.add(version, {})
    producer.describe()
    producer.end(3)
    producer.describe()


@scenario(AddPartitionsToTxnRequest, since=4)
def verified_partitions(talk: Talk, version: int) -> None:
    topic = talk.create("t", 3)
    producer, second = TxnProducer(talk, "tx"), TxnProducer(talk, "second")
    for each in (producer, second):
        each.init()
    producer.add(version, {topic: [0]}, verify_only=True)
    producer.add(version, {topic: [0]})
    producer.add(version, {topic: [0]}, verify_only=True)
    producer.add(version, {topic: [0, 1]}, verify_only=True)
    producer.add(version, {topic: [0, 7]}, verify_only=True)
    for fields in ({"producer_epoch": 3}, {"producer_id": NOBODY}, {"transactional_id": talk.topic("nobody")}):
        producer.add(version, {topic: [0]}, verify_only=True, **fields)
    producer.add(version, {topic: [0]}, verify_only=True, transactional_id="")
    producer.end(3)
    producer.add(version, {topic: [0]}, verify_only=True)
    entries = [AddPartitionsToTxnTopic(name=topic, partitions=[0, 1])]
    transactions = [
        AddPartitionsToTxnTransaction(
            transactional_id=one.transactional_id, producer_id=one.producer_id, producer_epoch=0, verify_only=verify, topics=entries
        )
        for one, verify in ((producer, False), (second, True))
    ]
    talk.ask(AddPartitionsToTxnRequest(transactions=transactions), version)
    for one in (producer, second):
        one.describe()


@scenario(AddOffsetsToTxnRequest)
def add_offsets_to_txn(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    producer = TxnProducer(talk, "tx")
    producer.add_offsets(version, group, producer_id=NOBODY, producer_epoch=0)
    producer.init()
    producer.add_offsets(version, group)
    producer.add_offsets(version, group)
    producer.describe()
    producer.add_offsets(version, "")
    producer.add_offsets(version, group, producer_epoch=5)
    producer.add_offsets(version, group, producer_id=NOBODY)
    producer.add_offsets(version, group, transactional_id="")
    producer.add_offsets(version, group, transactional_id=talk.topic("nobody"))
    producer.end(3)
    producer.describe()


@scenario(EndTxnRequest)
def end_txn(talk: Talk, version: int) -> None:
    topic = talk.create("t", 2)
    producer = TxnProducer(talk, "tx")
    producer.end(version, producer_id=NOBODY, producer_epoch=0)
    producer.init()
    for is_committed in (True, False):
        producer.end(version, is_committed)
    for sequence, is_committed in enumerate((True, False, True)):
        producer.add(3, {topic: [0, 1]})
        producer.produce(topic, sequence)
        producer.describe()
        producer.end(version, is_committed, producer_epoch=7)
        producer.end(version, is_committed, producer_epoch=-1)
        producer.end(version, is_committed, producer_id=NOBODY)
        producer.end(version, is_committed, transactional_id="")
        producer.end(version, is_committed, transactional_id=talk.topic("nobody"))
        producer.end(version, is_committed)
        producer.end(version, is_committed)
        producer.end(version, not is_committed)
        producer.describe()
    committed(talk, topic)
    committed(talk, topic, 1)


@scenario(EndTxnRequest)
def ends_of_fenced_producers(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    first = TxnProducer(talk, "tx")
    first.init()
    first.add(3, {topic: [0]})
    first.produce(topic)
    second = TxnProducer(talk, "tx")
    second.init()
    first.end(version)
    first.add(version if version < 4 else 3, {topic: [0]})
    first.add_offsets(version, talk.topic("group"))
    first.produce(topic, 1)
    second.add(3, {topic: [0]})
    second.produce(topic)
    first.produce(topic, 1)
    second.end(version)
    second.describe()
    committed(talk, topic)


@scenario(TxnOffsetCommitRequest, since=3)
def transactions_that_are_verified(talk: Talk, version: int) -> None:
    """A producer without the partition in its transaction, or not any more, cannot write to it there."""
    topic, group = talk.create("t", 2), talk.topic("group")
    producer = TxnProducer(talk, "tx")
    producer.init()
    verify(talk, "true")
    try:
        producer.produce(topic, version=9)
        producer.produce(topic, version=11)
        commit_offsets(producer, group, topic, version)
        producer.add(3, {topic: [0]})
        producer.produce(topic)
        producer.produce(topic, partition=1, version=9)
        producer.produce(topic, partition=1, version=11)
        producer.produce(topic, 1, epoch=7)
        commit_offsets(producer, group, topic, version)
        producer.add_offsets(3, group)
        commit_offsets(producer, group, topic, version, producer_epoch=7)
        commit_offsets(producer, group, topic, version, producer_id=NOBODY)
        commit_offsets(producer, group, topic, version, transactional_id=talk.topic("nobody"))
        commit_offsets(producer, group, topic, version)
        producer.end(3)
        producer.describe()
        producer.produce(topic, 1)
        commit_offsets(producer, group, topic, version)
    finally:
        verify(talk, "false")
    offsets(talk, group, topic)
    committed(talk, topic)


def commit_offsets(producer: TxnProducer, group: str, topic: str, version: int, **fields: Any) -> None:
    own: dict[str, Any] = {"transactional_id": producer.transactional_id, "producer_id": producer.producer_id}
    producer.talk.ask(txn_commit(group, topic, **own | {"producer_epoch": producer.epoch} | fields), version)


@scenario(DescribeTransactionsRequest)
def describe_transactions(talk: Talk, version: int) -> None:
    topic = talk.create("t", 2)
    producer = TxnProducer(talk, "tx", 12_345)
    producer.init()
    nobody = talk.topic("nobody")
    for ids in (
        [],
        [""],
        [nobody],
        [producer.transactional_id],
        [producer.transactional_id] * 2,
        [nobody, producer.transactional_id],
    ):
        talk.ask(DescribeTransactionsRequest(transactional_ids=ids), version)
    producer.add(3, {topic: [0]})
    talk.ask(DescribeTransactionsRequest(transactional_ids=[producer.transactional_id]), version)
    producer.end(3)
    producer.describe()


@scenario(ListTransactionsRequest)
def list_transactions(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    names = ["empty", "open", "committed", "aborted"]
    producers = {name: TxnProducer(talk, name) for name in names}
    for name, producer in producers.items():
        producer.init()
        if name != "empty":
            producer.add(3, {topic: [0]})
    producers["committed"].end(3)
    producers["aborted"].end(3, False)
    for producer in producers.values():
        producer.describe()
    short = {producer.transactional_id: name for name, producer in producers.items()}
    ids = {name: producer.producer_id for name, producer in producers.items()}

    def listed(**filters: Any) -> None:
        answer = talk.ask(ListTransactionsRequest(**filters), version, note=False)
        found = sorted(
            [short[each.transactional_id], each.transaction_state]
            for each in answer.transaction_states
            if each.transactional_id in short
        )
        talk.answers.append((f"listed {sorted(filters)}", [answer.error_code, sorted(answer.unknown_state_filters), found]))

    listed()
    for states in (["Ongoing"], ["Empty", "CompleteAbort"], ["ongoing"], ["Nothing", "CompleteCommit"], ["Dead"], [""]):
        listed(state_filters=states)
    listed(producer_id_filters=[ids["open"], ids["empty"]])
    listed(producer_id_filters=[NOBODY])
    listed(producer_id_filters=[ids["open"]], state_filters=["Empty"])
    if version >= 1:
        for duration_ms in (-2, 0, 3_600_000):
            listed(duration_filter=duration_ms)


@scenario(FindCoordinatorRequest, since=1)
def coordinators_of_transactional_ids(talk: Talk, version: int) -> None:
    for key in (talk.topic("tx"), ""):
        fields: dict[str, Any] = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
        talk.ask(FindCoordinatorRequest(key_type=1, **fields), version)
