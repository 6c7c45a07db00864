"""What a cluster has to stand: each fault is done to it under load, mended, and waited for until the cluster is whole."""

from collections.abc import Callable

from tests.cluster.checker import Kind as Found
from tests.cluster.checker import check, told
from tests.cluster.cluster import LAG_MS, SESSION_MS, Cluster, rest, wait_for_progress
from tests.cluster.load import Load
from tests.cluster.replicas import ensure_replicas_are_identical, producer_epochs

LONG_S = (max(SESSION_MS, LAG_MS) + 2000) / 1000
"""Longer than sessions and lagging replicas are borne with."""

FEWEST = 100
"""A history of less proves nothing."""

PARTITIONS = 3

Do = Callable[[Cluster, Load], None]
LoadOn = Callable[..., Load]
"""What the fixture of this name returns: it loads a topic with so many partitions."""


def kill_a_leader(cluster: Cluster, load: Load) -> None:
    _kill(cluster, load, cluster.leader(load.target.topic))


def kill_the_controller(cluster: Cluster, load: Load) -> None:
    _kill(cluster, load, cluster.controller())


def kill_a_leader_for_a_moment(cluster: Cluster, load: Load) -> None:
    # It is back before its session has expired.
    leader = cluster.leader(load.target.topic)
    cluster.brokers[leader].kill()
    cluster.start_brokers(leader)


def stop_a_leader(cluster: Cluster, load: Load) -> None:
    _stop(cluster, load, cluster.leader(load.target.topic))


def stop_the_controller(cluster: Cluster, load: Load) -> None:
    _stop(cluster, load, cluster.controller())


def pause_a_leader(cluster: Cluster, load: Load) -> None:
    with cluster.paused(cluster.leader(load.target.topic)):
        rest(LONG_S)


def pause_the_controller(cluster: Cluster, load: Load) -> None:
    with cluster.paused(cluster.controller()):
        rest(LONG_S)


def isolate_a_leader(cluster: Cluster, load: Load) -> None:
    with cluster.isolated(cluster.leader(load.target.topic)):
        rest(LONG_S)


def isolate_a_leader_from_zookeeper_too(cluster: Cluster, load: Load) -> None:
    with cluster.isolated(cluster.leader(load.target.topic), from_zookeeper=True):
        rest(LONG_S)
        wait_for_progress(lambda: load.acknowledged)


def isolate_the_controller(cluster: Cluster, load: Load) -> None:
    with cluster.isolated(cluster.controller()):
        rest(LONG_S)


def silence_a_leader(cluster: Cluster, load: Load) -> None:
    with cluster.silenced(cluster.leader(load.target.topic)):
        rest(LONG_S)


def deafen_a_leader(cluster: Cluster, load: Load) -> None:
    with cluster.deafened(cluster.leader(load.target.topic)):
        rest(LONG_S)


def expire_a_leaders_session(cluster: Cluster, load: Load) -> None:
    cluster.expire_session(cluster.leader(load.target.topic))


def expire_the_controllers_session(cluster: Cluster, load: Load) -> None:
    cluster.expire_session(cluster.controller())


def kill_zookeeper(cluster: Cluster, load: Load) -> None:
    cluster.zookeeper.kill()
    rest(LONG_S)
    cluster.zookeeper.start()


def kill_all_at_once(cluster: Cluster, load: Load) -> None:
    for broker in cluster.brokers.values():
        broker.kill()
    cluster.start_brokers(*cluster.brokers)


def stop_each_in_turn(cluster: Cluster, load: Load) -> None:
    # A rolling restart.
    for broker in cluster.brokers:
        _stop(cluster, load, broker)
        cluster.wait_until_whole()


def _kill(cluster: Cluster, load: Load, broker_id: int) -> None:
    cluster.brokers[broker_id].kill()
    cluster.wait_until_gone(broker_id)
    wait_for_progress(lambda: load.acknowledged)
    cluster.start_brokers(broker_id)


def _stop(cluster: Cluster, load: Load, broker_id: int) -> None:
    status = cluster.brokers[broker_id].stop()
    assert status in _STOPPED, cluster.brokers[broker_id].tail()
    wait_for_progress(lambda: load.acknowledged)
    cluster.start_brokers(broker_id)


_STOPPED = {0, 143}
"""Ours and Java's status after SIGTERM."""

FAULTS: tuple[Do, ...] = (
    kill_a_leader,
    kill_the_controller,
    kill_a_leader_for_a_moment,
    stop_a_leader,
    stop_the_controller,
    pause_a_leader,
    pause_the_controller,
    isolate_a_leader,
    isolate_a_leader_from_zookeeper_too,
    isolate_the_controller,
    silence_a_leader,
    deafen_a_leader,
    expire_a_leaders_session,
    expire_the_controllers_session,
    kill_zookeeper,
    kill_all_at_once,
    stop_each_in_turn,
)
"""Each can be done to any cluster of at least three brokers."""


def bear(cluster: Cluster, load: Load, fault: Do) -> None:
    """Do it, wait until the cluster is whole again and records are acknowledged."""
    fault(cluster, load)
    cluster.wait_until_whole()
    wait_for_progress(lambda: load.acknowledged)


def ensure_nothing_is_wrong(cluster: Cluster, load: Load, *, are_replicas_compared: bool = True) -> None:
    """End the load, and find no fault in its history and no difference between replicas."""
    history = load.end()
    faults = check(history)
    if faults:
        print(told(faults))
        history.epochs = producer_epochs(cluster, load.target.topic)
        faults = check(history)
    assert not faults, told(faults) + "\n" + "\n".join(load.target.errors[-50:])
    assert history.acknowledged > FEWEST
    if not are_replicas_compared:
        return
    cluster.wait_until_whole()
    ensure_replicas_are_identical(cluster, load.target.topic)


def withstand(cluster: Cluster, load_on: LoadOn, fault: Do, partitions: int = PARTITIONS) -> None:
    """Do it to a new topic of three replicas under load, and find nothing wrong."""
    topic = f"checked-{fault.__name__}"
    cluster.create_topic(topic, partitions, 3)
    load = load_on(topic, partitions)
    bear(cluster, load, fault)
    ensure_nothing_is_wrong(cluster, load)


def lose_what_one_replica_alone_has_acknowledged(cluster: Cluster, load_on: LoadOn) -> None:
    """Have a leader acknowledge records that it never passes on; they have to be found lost."""
    topic = "unsafe"
    cluster.create_topic(topic, 1, 3, min_insync_replicas=1, unclean_leader_election_enable="true")
    load = load_on(topic, 1, acks="1", idempotent=False)
    leader = cluster.leader(topic)
    with cluster.isolated(leader):
        rest(LONG_S)
        wait_for_progress(lambda: load.acknowledged)
        cluster.brokers[leader].kill()
    cluster.wait_until_gone(leader)
    wait_for_progress(lambda: load.acknowledged)
    cluster.start_brokers(leader)
    cluster.wait_until_whole()
    assert Found.LOST in {fault.kind for fault in check(load.end())}
