"""A broker that is about to stop asks the controller to move its leaderships away (Kafka: ``KafkaServer.controlledShutdown``)."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from twisted.logger import Logger

from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import error_code_of
from twisted_kafka.protocol.messages.inter_broker import ControlledShutdownRequest, ControlledShutdownResponse
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine

_log = Logger()

_MARGIN_S = 5.0
"""How much longer than its timeout a request is waited for, should its client not answer."""


class ControlledShutdown:
    """``controlled.shutdown.*``: blocks until the broker leads nothing that another one could lead, or gives up."""

    def __init__(
        self,
        config: KafkaConfig,
        metadata: MetadataCache,
        client: InterBrokerClient,
        listener_name: str,
        sleep: Callable[[float], Any],
    ) -> None:
        """``client`` sends to this listener of the controller; ``sleep`` waits for some seconds."""
        self._config = config
        self._metadata = metadata
        self._client = client
        self._listener_name = listener_name
        self._sleep = sleep

    def run(self, controller: KafkaController, broker_epoch: int) -> bool:
        """Return whether the leaderships were moved. Without other brokers there is nobody to move them to."""
        config = self._config
        if not config.boolean("controlled.shutdown.enable") or not self._has_others():
            return False
        for attempt in range(config.int("controlled.shutdown.max.retries")):
            if attempt:
                self._sleep(config.long("controlled.shutdown.retry.backoff.ms") / 1000)
            try:
                left = self._ask(controller, broker_epoch)
            except Exception as error:  # noqa: BLE001 the broker stops anyway
                _log.warn("The controller did not take this broker's leaderships: {error}", error=str(error) or repr(error))
                continue
            if not left:
                _log.info("The controller has moved this broker's leaderships")
                return True
            _log.warn("This broker still leads {left}", left=", ".join(map(str, left)))
        _log.warn("This broker stops while it leads partitions: the controller moves them when it is gone")
        return False

    def _has_others(self) -> bool:
        return any(broker != self._config.broker_id for broker in self._metadata.snapshot.brokers)

    def _ask(self, controller: KafkaController, broker_epoch: int) -> list[TopicPartition]:
        """Return the partitions that this broker still leads; raises whatever goes wrong."""
        timeout_ms = self._config.int("controller.socket.timeout.ms")
        begun: Future[Any]
        if controller.is_active:
            begin = controller.controlled_shutdown.begin
            begun = controller.run(lambda: begin(self._config.broker_id, broker_epoch), ControllerState.CONTROLLED_SHUTDOWN)
            own: list[TopicPartition] = machine.result_of(begun, timeout_ms / 1000)
            return own
        controller_id = self._metadata.controller_id
        node = None if controller_id is None else self._metadata.node(controller_id, self._listener_name)
        if node is None:
            raise LookupError("no controller is known")
        request = ControlledShutdownRequest(broker_id=self._config.broker_id, broker_epoch=broker_epoch)
        begun = self._client.send(node, request, timeout_ms=timeout_ms)
        response: ControlledShutdownResponse = machine.result_of(begun, timeout_ms / 1000 + _MARGIN_S)
        if response.error_code:
            raise RuntimeError(f"broker {node.id} answered with {error_code_of(response.error_code).name}")
        return [TopicPartition(each.topic_name, each.partition_index) for each in response.remaining_partitions]
