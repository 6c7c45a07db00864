"""The controller's channels to brokers. So far only its own broker is reached, in process."""

from collections.abc import Callable

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.controller.interfaces import ControlRequest, ControlResponse, IBrokerChannels, IControlPlane
from twisted_kafka.protocol.messages.inter_broker import LeaderAndIsrRequest, StopReplicaRequest


@implementer(IBrokerChannels)
class InProcessChannels:
    """Passes requests to the controller's own broker, on the calling thread. Other brokers cannot be reached yet."""

    log = Logger()

    def __init__(self, broker_id: int, control: IControlPlane) -> None:
        self._broker_id = broker_id
        self._control = control

    def send(self, broker_id: int, request: ControlRequest, on_response: Callable[[ControlResponse], None] | None) -> None:
        """Apply the request to the own broker, and pass its response on."""
        if broker_id != self._broker_id:
            self.log.warn("Broker {broker} cannot be reached: requests to other brokers are not sent yet", broker=broker_id)
            return
        response: ControlResponse = None
        if isinstance(request, LeaderAndIsrRequest):
            response = self._control.leader_and_isr(request)
        elif isinstance(request, StopReplicaRequest):
            response = self._control.stop_replica(request)
        else:
            self._control.update_metadata(request)
        if on_response is not None:
            on_response(response)

    def add_broker(self, broker_id: int) -> None:
        """Do nothing: there is no connection to open."""

    def remove_broker(self, broker_id: int) -> None:
        """Do nothing: there is no connection to close."""
