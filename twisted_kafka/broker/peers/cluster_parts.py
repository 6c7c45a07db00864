"""The connections to other brokers: the channels of this broker's controller, and requests to the cluster's controller."""

from functools import partial
from typing import Final

from twisted_kafka.broker.peers.controlled_shutdown import ControlledShutdown
from twisted_kafka.broker.peers.controller_client import ControllerClient
from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.controller.channels.network_channels import NetworkChannels
from twisted_kafka.controller.channels.own_broker import ControlClients
from twisted_kafka.controller.channels.request_shapes import latest_versions
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.replication.control_plane import ControlPlane
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import KafkaScheduler, ScheduledTask
from twisted_kafka.timing.timer import Timer

FIRST_BALANCE_MS: Final = 5_000
"""How long after its election a controller balances leaders for the first time."""


class ClusterParts:
    """The clients, which connect when there is something to send."""

    def __init__(
        self,
        config: KafkaConfig,
        metadata: MetadataCache,
        scheduler: KafkaScheduler,
        retries: Timer,
        clock: IClock,
        metrics: MetricsRegistry,
    ) -> None:
        self._config = config
        self._scheduler = scheduler
        self._retries = retries
        self._clock = clock
        self._metrics = metrics
        self._clients: ControlClients | None = None
        self._channels: NetworkChannels | None = None
        self._balancing: ScheduledTask | None = None
        listener_name = config.control_plane_listener_name or config.inter_broker_listener_name

        def make_client(thread: str, purpose: str) -> InterBrokerClient:
            return InterBrokerClient(config, f"{thread}-{config.broker_id}", purpose, clock, listener_name)

        self._to_controller = make_client("BrokerToControllerSendThread", "to-controller")
        self._to_brokers = make_client("ControllerSendThread", "controller")
        timeout_ms = config.int("request.timeout.ms")
        self.controller_client = ControllerClient(self._to_controller, metadata, listener_name, retries, clock, timeout_ms)
        self._shutdown = ControlledShutdown(config, metadata, self._to_controller, listener_name, machine.Event().wait)

    def make_channels(self, control: ControlPlane) -> NetworkChannels:
        """Return the channels of this broker's controller."""
        config = self._config
        own = Node(config.broker_id, "", 0, None)
        self._clients = clients = ControlClients(own.id, control, self._to_brokers)
        listener_name = config.control_plane_listener_name or config.inter_broker_listener_name
        self._channels = NetworkChannels(
            clients, latest_versions(config), own, listener_name, self._retries, self._clock, self._metrics
        )
        return self._channels

    def follow(self, controller: KafkaController, configs: ConfigRepository) -> None:
        """Report dropped requests and changed topic configs to the controller, and let it balance leaders."""
        assert self._channels is not None, "made before the controller"
        self._channels.set_overflow_listener(controller.tell_anew)
        controller.set_elected_listener(partial(self._balance_from_now_on, controller))

        def topic_changed(_: str, settings: dict[str, str]) -> None:
            if settings.get("unclean.leader.election.enable", "").strip().lower() == "true":
                controller.elect_for_offline()

        configs.add_listener("topics", topic_changed)

    def _balance_from_now_on(self, controller: KafkaController) -> None:
        if self._balancing is not None:
            self._balancing.cancel()
        interval_ms = self._config.long("leader.imbalance.check.interval.seconds") * 1000
        self._balancing = self._scheduler.schedule(
            "auto-leader-rebalance-task", controller.balance_leaders, FIRST_BALANCE_MS, interval_ms
        )

    def give_up_leaderships(self, controller: KafkaController, broker_epoch: int) -> None:
        """Let other brokers lead this broker's partitions, before anything else stops."""
        self._shutdown.run(controller, broker_epoch)

    def refresh(self) -> None:
        """Use certificates that have changed."""
        for client in (self._to_controller, self._to_brokers):
            client.refresh()

    def stop(self) -> None:
        """Fail all requests, and send no more."""
        self.controller_client.stop()
        if self._channels is not None and self._clients is not None:
            self._channels.remove_all()
            self._clients.stop()
        for client in (self._to_controller, self._to_brokers):
            client.stop()
