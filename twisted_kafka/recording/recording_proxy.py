"""A proxy that records, on its own thread, for tests and for ``twisted-kafka record``."""

from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from twisted.logger import Logger

from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.network.loop.reactors import close_reactor, make_reactor
from twisted_kafka.recording.proxy import Proxy
from twisted_kafka.recording.recording import MAX_FILE_BYTES, Recording
from twisted_kafka.system import machine
from twisted_kafka.system.threads import make_thread
from twisted_kafka.timing.clock import SystemClock

_START_S: Final = 10.0
_STOP_S: Final = 5.0
_log = Logger()


class RecordingProxy:
    """Records the clients that connect to it instead of to a Kafka broker.

    with RecordingProxy("kafka:9092", "shop.jsonl") as proxy:
        run_the_shop(proxy.bootstrap_servers)
    """

    def __init__(
        self,
        to: str,
        path: Path | str,
        *,
        listen: str = "127.0.0.1:0",
        max_bytes: int = MAX_FILE_BYTES,
        is_new: bool = False,
    ) -> None:
        """``to`` and ``listen`` are HOST:PORT; ``is_new``: the file must not exist. Raises ValueError and OSError."""
        self._to, (self._host, self._port) = parse_address(to), parse_address(listen, least_port=0)
        clock = SystemClock()
        self.recording = Recording(path, clock, broker=to, max_bytes=max_bytes, is_new=is_new)
        self._reactor = make_reactor(clock)
        self._proxy = Proxy(self._reactor, clock, self.recording)
        self._thread = make_thread(self._run, "kafka-recording-proxy")

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients: host:port."""
        return f"{'127.0.0.1' if self._host in ('0.0.0.0', '') else self._host}:{self._port}"

    @property
    def connections(self) -> int:
        """The number of connections so far."""
        return self._proxy.connections

    def start(self) -> None:
        """Listen. Raises twisted.internet.error.CannotListenError."""
        self._thread.start()
        listening: Future[int] = Future()

        def listen() -> None:
            try:
                listening.set_result(self._proxy.listen(self._host, self._port, self._to))
            except BaseException as error:  # noqa: BLE001 the future has it
                listening.set_exception(error)

        self._reactor.callFromThread(listen)
        try:
            self._port = machine.result_of(listening, _START_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close all connections and the file. Harmless when the proxy is stopped."""
        if self._thread.is_alive():
            self._reactor.callFromThread(self._end)
            self._thread.join(_STOP_S)
            if self._thread.is_alive():
                _log.warn("The recording proxy did not end in {seconds} s", seconds=_STOP_S)
            else:
                close_reactor(self._reactor)
        self.recording.close()

    def _end(self) -> None:
        self._proxy.stop()
        self._reactor.callLater(0, self._reactor.stop)

    def _run(self) -> None:
        self._reactor.run(installSignalHandlers=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()
