"""The twistd plugins: `kafka` (the rest is in twisted_kafka.tap) and `kafka-cluster` (twisted_kafka.tools.cluster)."""

from typing import Any

from twisted.application.service import IService, IServiceMaker
from twisted.plugin import IPlugin
from zope.interface import implementer

from twisted_kafka.system.start_up import restart_interpreter, without_collector, without_tls


@implementer(IPlugin, IServiceMaker)
class KafkaServiceMaker:
    """Creates the service when twistd runs it; imports are deferred until then."""

    tapname = "kafka"
    description = "A Kafka broker."

    @property
    def options(self) -> Any:
        """The class of the command-line options, which twistd asks for when the command line names this plugin."""
        restart_interpreter()
        with without_collector():
            from twisted_kafka.tap import Options

        return Options

    def makeService(self, options: Any) -> IService:
        """Create the broker's service on the reactor that twistd has chosen."""
        from twisted_kafka.tap import makeService, needs_tls

        with without_collector():
            with without_tls(needs_tls(options)):
                from twisted.internet import reactor
            return makeService(options, reactor)


@implementer(IPlugin, IServiceMaker)
class ClusterServiceMaker:
    """Creates the service of several brokers as processes."""

    tapname = "kafka-cluster"
    description = "Several Kafka brokers as processes, for development."

    @property
    def options(self) -> Any:
        """The class of the command-line options."""
        from twisted_kafka.tools.cluster.options import Options

        return Options

    def makeService(self, options: Any) -> IService:
        """Create the cluster's service on the reactor that twistd has chosen."""
        from twisted.internet import reactor

        from twisted_kafka.tools.cluster.options import makeService

        return makeService(options, reactor)


service_maker = KafkaServiceMaker()
cluster_service_maker = ClusterServiceMaker()
