"""The parts that the steps of the controller share: context, store, requests and state machines."""

from dataclasses import dataclass

from twisted_kafka.controller.channels.requests import RequestBatch
from twisted_kafka.controller.context.context import ControllerContext
from twisted_kafka.controller.context.fenced_store import FencedStore
from twisted_kafka.controller.machines.partition_machine import PartitionStateMachine
from twisted_kafka.controller.machines.replica_machine import ReplicaStateMachine


@dataclass(frozen=True, slots=True)
class Machinery:
    """One controller's parts. Used on its event thread only."""

    context: ControllerContext
    store: FencedStore
    requests: RequestBatch
    partitions: PartitionStateMachine
    replicas: ReplicaStateMachine
