"""The clock of a broker under test, with real clients over TCP."""

import contextlib
import datetime
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import twisted_kafka
from tests.support.budget import patient
from tests.support.eventually import eventually
from twisted_kafka.testing import Clock
from twisted_kafka.timing.scheduler import KafkaScheduler
from twisted_kafka.timing.timer import Timer

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")


@contextlib.contextmanager
def broker(clock: Clock, **properties: object) -> Iterator[dict[str, Any]]:
    with twisted_kafka.Broker({key.replace("_", "."): value for key, value in properties.items()}, clock=clock) as running:
        yield {"bootstrap.servers": running.bootstrap_servers}


def create(client: dict[str, Any], topic: str, **config: str) -> None:
    new = admin.NewTopic(topic, 1, config={key.replace("_", "."): value for key, value in config.items()})
    creator = admin.AdminClient(client)
    for done in creator.create_topics([new]).values():
        done.result(30)


def test_time_passes_by_itself_and_stands_still_while_it_is_held() -> None:
    clock = Clock(at=datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC))
    before = clock.monotonic_ns()
    assert clock.monotonic_ns() > before or clock.monotonic_ns() > before
    with clock.held():
        held_ns, held_ms = clock.monotonic_ns(), clock.wall_ms()
        assert (clock.monotonic_ns(), clock.wall_ms()) == (held_ns, held_ms)
        clock.advance(seconds=1.5)
        assert (clock.monotonic_ns() - held_ns, clock.wall_ms() - held_ms) == (1_500_000_000, 1500)
    assert held_ns + 1_500_000_000 <= clock.monotonic_ns() < held_ns + 600_000_000_000
    assert clock.now.year == 2030


def test_the_wall_clock_alone_goes_back() -> None:
    clock = Clock()
    clock.hold()
    monotonic_ns, wall_ms = clock.monotonic_ns(), clock.wall_ms()
    clock.jump(hours=-1)
    assert (clock.monotonic_ns(), clock.wall_ms()) == (monotonic_ns, wall_ms - 3_600_000)
    with pytest.raises(ValueError, match=r"cannot go back by 2 s: use jump\(\)"):
        clock.advance(seconds=-2)
    with pytest.raises(ValueError, match=r"2030-01-01T00:00:00 needs a time zone"):
        Clock(at=datetime.datetime(2030, 1, 1))


@pytest.mark.parametrize("days", [90_000, 1e300, 10**400, float("inf"), float("nan"), -30_000, -1e300])
def test_the_wall_clock_stays_in_its_years(days: float) -> None:
    clock = Clock()
    clock.hold()
    before = (clock.monotonic_ns(), clock.wall_ms())
    for move in (clock.advance, clock.jump):
        with pytest.raises(ValueError, match="the wall clock would leave the years 1970 to 2262"):
            move(days=days)
    assert (clock.monotonic_ns(), clock.wall_ms()) == before


def test_threads_that_wait_for_a_time_wake_up_when_it_has_come() -> None:
    clock, fired = Clock(), threading.Semaphore(0)
    timer, scheduler = Timer(clock), KafkaScheduler(clock, 1)
    timer.start()
    scheduler.startup()
    clock.hold()
    timer.add(60_000, fired.release)
    scheduler.schedule_once("later", lambda: fired.release(), 60_000)
    clock.advance(seconds=59)
    assert not fired.acquire(timeout=0.05)
    clock.advance(seconds=1)
    try:
        assert fired.acquire(timeout=30)
        assert fired.acquire(timeout=30)
    finally:
        timer.shutdown()
        scheduler.shutdown()


def test_a_member_that_is_silent_for_its_session_timeout_leaves_its_group() -> None:
    clock = Clock()
    with broker(clock) as client:
        create(client, "work")
        lost: list[object] = []
        settings = {"group.id": "workers", "session.timeout.ms": 45_000, "heartbeat.interval.ms": 15_000}
        consumer = confluent_kafka.Consumer({**client, **settings})
        consumer.subscribe(["work"], on_lost=lambda *_: lost.append(1), on_revoke=lambda *_: lost.append(1))
        eventually(lambda: consumer.poll(0.05) or consumer.assignment())
        describer = admin.AdminClient(client)

        def members() -> int:
            return len(describer.describe_consumer_groups(["workers"])["workers"].result(30).members)

        assert members() == 1
        clock.advance(seconds=46)
        eventually(lambda: members() == 0)
        consumer.close()


def test_a_transaction_that_times_out_is_aborted() -> None:
    clock = Clock()
    with broker(clock, transaction_abort_timed_out_transaction_cleanup_interval_ms=10_000) as client:
        create(client, "payments")
        producer = confluent_kafka.Producer({**client, "transactional.id": "cashier", "transaction.timeout.ms": 60_000})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("payments", b"100")
        producer.flush(30)
        clock.advance(minutes=2)
        consumer = confluent_kafka.Consumer({**client, "group.id": "audit", "isolation.level": "read_committed"})
        end = confluent_kafka.TopicPartition("payments", 0)
        # The marker of the abort takes the second offset.
        eventually(lambda: consumer.get_watermark_offsets(end, timeout=patient(30))[1] == 2)
        with pytest.raises(confluent_kafka.KafkaException):
            producer.commit_transaction(10)
        consumer.close()


def test_old_records_go_when_their_retention_has_passed() -> None:
    clock = Clock()
    # Or the client's connection is idle for two days, and closed while it is asked.
    with broker(clock, log_retention_check_interval_ms=300_000, connections_max_idle_ms=-1) as client:
        create(client, "news", retention_ms="86400000")
        producer = confluent_kafka.Producer(client)
        producer.produce("news", b"old", timestamp=clock.wall_ms())
        assert producer.flush(30) == 0
        consumer = confluent_kafka.Consumer({**client, "group.id": "readers"})
        news = confluent_kafka.TopicPartition("news", 0)
        assert consumer.get_watermark_offsets(news, timeout=30) == (0, 1)
        clock.advance(days=2)
        eventually(lambda: consumer.get_watermark_offsets(news, timeout=patient(30)) == (1, 1))
        consumer.close()


def test_a_broker_serves_and_stops_while_time_stands_still() -> None:
    clock = Clock()
    clock.hold()
    with broker(clock) as client:
        create(client, "still")
        producer = confluent_kafka.Producer(client)
        for number in range(1000):
            producer.produce("still", b"%d" % number)
        assert producer.flush(30) == 0
        consumer = confluent_kafka.Consumer({**client, "group.id": "readers"})
        consumer.assign([confluent_kafka.TopicPartition("still", 0, 0)])
        assert len(consumer.consume(1000, timeout=30)) == 1000
        # Its next fetch waits for more records, for half a second that do not pass.
        clock.advance(seconds=1)
        closing = threading.Thread(target=consumer.close)
        closing.start()

        def has_closed() -> bool:
            clock.advance(seconds=1)
            return not closing.is_alive()

        eventually(has_closed, pause_s=0.1)
