"""The controller's channels to brokers: its own one is called in process, the others over the network."""

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.controller.channels.interfaces import ControlRequest, ControlResponse, IBrokerChannels, IControlPlane, OnResponse
from twisted_kafka.metadata.znodes import BrokerNode
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)


@implementer(IBrokerChannels)
class InProcessChannels:
    """Passes requests to the controller's own broker, on the calling thread. Other brokers are not reached."""

    log = Logger()

    def __init__(self, broker_id: int, control: IControlPlane) -> None:
        self._broker_id = broker_id
        self._control = control

    def send(self, broker_id: int, request: ControlRequest, on_response: OnResponse | None) -> None:
        """Apply the request to the own broker, and pass its response on."""
        if broker_id != self._broker_id:
            self.log.warn("Broker {broker} cannot be reached: this one is alone", broker=broker_id)
            return
        response = self._applied(request)
        if on_response is not None:
            on_response(response)

    def _applied(self, request: ControlRequest) -> ControlResponse:
        """Return the own broker's response. Whatever it raises must not keep the others' requests from being sent."""
        try:
            if isinstance(request, LeaderAndIsrRequest):
                taken: ControlResponse = self._control.leader_and_isr(request)
                return taken
            if isinstance(request, StopReplicaRequest):
                stopped: ControlResponse = self._control.stop_replica(request)
                return stopped
            self._control.update_metadata(request)
        except Exception:  # noqa: BLE001 over the network it would be an error response, too
            self.log.failure("This broker did not carry out its controller's {request}", request=type(request).__name__)
            if isinstance(request, LeaderAndIsrRequest):
                return LeaderAndIsrResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            if isinstance(request, StopReplicaRequest):
                return StopReplicaResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    def add_broker(self, broker_id: int, node: BrokerNode) -> None:
        """Do nothing: there is no connection to open."""

    def remove_broker(self, broker_id: int) -> None:
        """Do nothing: there is no connection to close."""

    def remove_all(self) -> None:
        """Do nothing: there is no connection to close."""


@implementer(IBrokerChannels)
class ClusterChannels:
    """The own broker in process, all others over the network."""

    def __init__(self, broker_id: int, own: InProcessChannels, others: IBrokerChannels) -> None:
        self._broker_id = broker_id
        self._own = own
        self._others = others

    def send(self, broker_id: int, request: ControlRequest, on_response: OnResponse | None) -> None:
        """Send a request; see IBrokerChannels."""
        self._of(broker_id).send(broker_id, request, on_response)

    def add_broker(self, broker_id: int, node: BrokerNode) -> None:
        """Prepare to send requests; see IBrokerChannels."""
        self._of(broker_id).add_broker(broker_id, node)

    def remove_broker(self, broker_id: int) -> None:
        """Drop requests; see IBrokerChannels."""
        self._of(broker_id).remove_broker(broker_id)

    def remove_all(self) -> None:
        """Drop all requests to others."""
        self._others.remove_all()

    def _of(self, broker_id: int) -> IBrokerChannels:
        return self._own if broker_id == self._broker_id else self._others
