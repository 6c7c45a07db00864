"""Puts the requests of a broker under test into a recording."""

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.recording.recording import Exchange, Recording
from twisted_kafka.system import machine
from twisted_kafka.testing.recorded.requests import RecordedRequest

_KEYS = {key.title: key for key in ApiKey}


class RequestRecorder:
    """Numbers the connections, and counts times from the first request."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._connections: dict[str, int] = {}
        self._began_ms: float | None = None
        self._lock = machine.Lock()

    def add(self, request: RecordedRequest) -> None:
        """Record one request."""
        key = _KEYS.get(request.api)
        if key is None:
            return
        with self._lock:
            if self._began_ms is None:
                self._began_ms = request.arrived_ms
            number = self._connections.setdefault(request.connection, len(self._connections) + 1)
        self._recording.add(
            Exchange(
                number,
                request.client_id,
                key,
                request.version,
                request.fields,
                request.response,
                request.arrived_ms - self._began_ms,
                request.answered_ms - request.arrived_ms,
                request.outcome,
            )
        )
