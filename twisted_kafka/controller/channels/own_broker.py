"""The controller's requests to its own broker: carried out in this process, on a thread of their own.

For its channels it is a broker like the others. Its disk may hang as theirs may, and the controller must not wait for it.
"""

from concurrent.futures import Future
from typing import Any

from twisted.logger import Logger

from twisted_kafka.controller.channels.interfaces import ControlRequest, IControlPlane
from twisted_kafka.controller.channels.network_channels import IControlClient
from twisted_kafka.controller.channels.request_shapes import ShapedRequest
from twisted_kafka.metadata.cache import Node
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)

_log = Logger()

THREAD_NAME = "controller-to-own-broker-thread"


class ControlClients:
    """Sends to this broker in process, and to others with their client."""

    def __init__(self, broker_id: int, control: IControlPlane, others: IControlClient, *, threaded: bool = True) -> None:
        """With ``threaded=False``, for tests, this broker's requests are carried out in ``pump()``."""
        self._broker_id = broker_id
        self._control = control
        self._others = others
        self._worker = SerialWorker(THREAD_NAME, threaded=threaded)

    def send(self, node: Node, request: ShapedRequest, latest_version: int) -> "Future[Any]":
        """Return a future of the response; it is set on another thread. See IControlClient."""
        if node.id != self._broker_id:
            return self._others.send(node, request, latest_version)
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()  # nobody cancels it
        if not self._worker.submit(lambda: answer.set_result(self._applied(request.request))):
            answer.set_exception(RuntimeError("this broker stops"))
        return answer

    def disconnect(self, broker_id: int) -> None:
        """Close the connection to another broker. This broker completes the request that it has begun."""
        if broker_id != self._broker_id:
            self._others.disconnect(broker_id)

    def pump(self) -> int:
        """Carry out the requests that wait for this broker; return their number. Only with ``threaded=False``."""
        return self._worker.pump()

    def stop(self) -> None:
        """Wait for the request that this broker has begun, and begin no others."""
        if not self._worker.close():
            _log.warn("This broker still carries out a request of its controller as it stops")

    def _applied(self, request: ControlRequest) -> Message:
        """Return this broker's response. An exception becomes an error response, as over the network."""
        try:
            if isinstance(request, LeaderAndIsrRequest):
                taken: LeaderAndIsrResponse = self._control.leader_and_isr(request)
                return taken
            if isinstance(request, StopReplicaRequest):
                stopped: StopReplicaResponse = self._control.stop_replica(request)
                return stopped
            is_current = self._control.update_metadata(request)
            return UpdateMetadataResponse(error_code=ErrorCode.NONE if is_current else ErrorCode.STALE_CONTROLLER_EPOCH)
        except Exception:  # noqa: BLE001 a controller of another process would have no more of it
            _log.failure("This broker did not carry out its controller's {request}", request=type(request).__name__)
            if isinstance(request, LeaderAndIsrRequest):
                return LeaderAndIsrResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            if isinstance(request, StopReplicaRequest):
                return StopReplicaResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            return UpdateMetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
