"""Steps of tests with brokers of both kinds."""

from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, wait_for_progress
from tests.cluster.load import Load
from tests.support.budget import patient
from tests.support.eventually import eventually


def wait_for_leaders(cluster: Cluster, topic: str, leaders: dict[int, int]) -> None:
    eventually(
        lambda: {part: state.leader for part, state in cluster.states(topic).items()} == leaders, wait_s=patient(60), pause_s=0.1
    )


def move_the_controller(cluster: Cluster, load: Load, kind: Kind) -> None:
    """Make a broker of this kind the controller: kill those of the other kind, which may be faster to take the role over."""
    if cluster.brokers[cluster.controller()].kind is kind:
        return
    others = [broker for broker in cluster.brokers.values() if broker.kind is not kind]
    for broker in others:
        broker.kill()
    eventually(lambda: cluster.brokers[cluster.controller()].kind is kind, wait_s=patient(60))
    cluster.start_brokers(*(broker.id for broker in others))
    cluster.wait_until_whole()
    wait_for_progress(lambda: load.acknowledged)
