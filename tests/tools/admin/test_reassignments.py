"""``twisted-kafka topics reassign``, on several brokers."""

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.eventually import eventually
from tests.tools.admin.cli import Cli
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.testing import Cluster
from twisted_kafka.tools.admin.reassignments import planned

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def cli(cluster: Cluster, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(cluster.bootstrap_servers, capfdbinary, monkeypatch, f"r{next(_numbers)}")


def replicas(cli: Cli, topic: str) -> list[list[int]]:
    (described,) = cli.json("topics", "describe", topic)
    return [each["replicas"] for each in described["partitions"]]


@pytest.mark.long
def test_a_broker_is_drained_and_filled_again(cli: Cli) -> None:
    topic = cli.topic("-p", "3", "-r", "2")
    cli.ok("produce", topic, *"abcdef")
    cli.ok("topics", "reassign", topic, "--brokers", "1,2", "--yes", "--wait")
    assert {broker for each in replicas(cli, topic) for broker in each} == {1, 2}
    assert cli.ok("topics", "reassign", topic, "--brokers", "1,2", "-y").lines == ["all replicas are on these brokers"]
    assert "this would move replicas of" in cli.fails("topics", "reassign", topic, "--brokers", "1,2,3")
    rows = cli.json("topics", "reassign", topic, "--brokers", "1,2,3", "--dry-run")
    assert [each["topic"] for each in rows] == [topic] * len(rows)
    cli.ok("topics", "reassign", topic, "--brokers", "1,2,3", "-y", "--wait")
    assert Counter(broker for each in replicas(cli, topic) for broker in each) == {1: 2, 2: 2, 3: 2}
    cli.ok("topics", "reassign", topic, "--brokers", "1,2,3", "-r", "1", "-y", "--wait")
    assert [len(each) for each in replicas(cli, topic)] == [1, 1, 1]
    assert sorted(cli.ok("consume", topic).lines) == [*"abcdef"]
    assert cli.json("topics", "reassignments") == []
    assert cli.ok("topics", "reassignments", topic, "--cancel", "-y").lines == ["no reassignment is running"]


@pytest.mark.long
def test_a_reassignment_that_cannot_be_done(cli: Cli) -> None:
    topic = cli.topic("-p", "1", "-r", "2")
    assert "there is no broker 9: the cluster has 1, 2, 3" in cli.fails("topics", "reassign", topic, "--brokers", "1,9")
    assert "name more in --brokers" in cli.fails("topics", "reassign", topic, "--brokers", "1")
    assert "expected ids" in cli.fails("topics", "reassign", topic, "--brokers", "one", status=2)


@pytest.mark.long
def test_requests_go_to_the_right_broker_while_leaders_change(cli: Cli, cluster: Cluster) -> None:
    topic, group = cli.topic("-p", "6", "-r", "3"), f"{cli.prefix}-g"
    lines = [str(number) for number in range(60)]
    cli.ok("produce", topic, "-K", ":", stdin="\n".join(f"{each}:{each}" for each in lines).encode())
    cli.ok("groups", "reset", group, topic, "--to", "earliest", "-y")
    victim = cluster.leader_of(topic)
    with cluster[victim].down():
        assert sorted(cli.ok("consume", topic).lines) == sorted(lines)
        assert cli.json("groups", "describe", group)[0]["lag"] == 60
        assert len(cli.json("topics", "describe", topic, "--under-replicated")[0]["partitions"]) == 6
        cli.ok("produce", topic, "more")
    eventually(lambda: cli.json("topics", "describe", topic, "--under-replicated") == [])
    cli.ok("topics", "elect-leaders", topic, "-y")
    eventually(
        lambda: all(each["leader"] == each["replicas"][0] for each in cli.json("topics", "describe", topic)[0]["partitions"])
    )


@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True), min_size=1, max_size=8),
    st.lists(st.integers(1, 7), min_size=3, max_size=5, unique=True),
)
def test_a_plan_is_balanced_and_keeps_what_it_can(now: list[list[int]], brokers: list[int]) -> None:
    before = {TopicPartition("t", number): each for number, each in enumerate(now)}
    plan = planned(before, brokers, None)
    for each, mine in plan.items():
        assert len(mine) == len(set(mine)) == len(before[each])
        assert set(mine) <= set(brokers)
    assert planned(plan, brokers, None) == plan
    load = Counter(broker for each in now for broker in each)
    if set(load) == set(brokers) and max(load.values()) - min(load.values()) < 2:
        assert plan == before
