"""What the steps of the controller share: context, store, requests and state machines."""

from dataclasses import dataclass

from twisted_kafka.controller.context import ControllerContext
from twisted_kafka.controller.fenced_store import FencedStore
from twisted_kafka.controller.partition_machine import PartitionStateMachine
from twisted_kafka.controller.replica_machine import ReplicaStateMachine
from twisted_kafka.controller.requests import RequestBatch


@dataclass(frozen=True, slots=True)
class Machinery:
    """One controller's parts. Used on its event thread only."""

    context: ControllerContext
    store: FencedStore
    requests: RequestBatch
    partitions: PartitionStateMachine
    replicas: ReplicaStateMachine
