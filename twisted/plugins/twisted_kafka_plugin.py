"""The twistd plugin for the service `kafka`; everything else is in twisted_kafka.tap."""

from typing import Any

from twisted.application.service import IService, IServiceMaker
from twisted.plugin import IPlugin
from zope.interface import implementer

from twisted_kafka.start_up import restart_interpreter, without_collector, without_tls


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


service_maker = KafkaServiceMaker()
