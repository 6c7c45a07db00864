"""What handlers that block do to other connections: latencies of small requests while other requests take a second each.

python -m benchmarks.blocked_handlers [--seconds 4] [--io-threads 4]        # on PyPy too

The network layer and the dispatch alone. Requests of the client "blocker" sleep for a second in their handler: never, one of them
now and then, all handlers but one all the time, and as many as there are handlers now and then. Requires gcc for its load.
"""

import argparse
import itertools
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.network_topology import SHAPES, Server, request_frame, run_load
from twisted_kafka.network.requests.request import Request

HERE = Path(__file__).resolve().parent
BLOCKED_S = 1.0
NOW_AND_THEN_S = 1.5
"""From the end of one blocking request to the next."""
CLIENT = "blocker"
_START_S = 0.2


class Blockers:
    """Connections whose requests block their handlers, one after another."""

    def __init__(self, port: int, count: int, pause_s: float) -> None:
        self._port = port
        self._pause_s = pause_s
        self._must_end = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()
        if self._threads:
            time.sleep(_START_S)

    def __exit__(self, *_: object) -> None:
        self._must_end.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as connected:
            while not self._must_end.is_set():
                connected.sendall(request_frame(CLIENT))
                connected.recv(1 << 16)
                self._must_end.wait(self._pause_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=2, help="seconds of load before the first figures")
    parser.add_argument("--io-threads", type=int, default=4)
    options = parser.parse_args()
    server = Server(1, options.io_threads, block)
    handlers = options.io_threads
    modes = (
        ("nobody", 0, 0.0),
        ("one now and then", 1, NOW_AND_THEN_S),
        (f"{handlers - 1} of {handlers}", handlers - 1, 0.0),
        (f"{handlers} now and then", handlers, NOW_AND_THEN_S),
    )
    with tempfile.TemporaryDirectory() as directory:
        kload = f"{directory}/kload"
        subprocess.run(["gcc", "-O2", "-o", kload, str(HERE / "beside" / "kload.c")], check=True)
        run_load(server.port, 8, 1, options.warm, kload)
        for (connections, depth), (mode, count, pause_s) in itertools.product(SHAPES, modes):
            with Blockers(server.port, count, pause_s):
                line = run_load(server.port, connections, depth, options.seconds, kload)
            print(f"{connections:3} x {depth}, blocked: {mode:18} {line}", flush=True)
    server.stop()


def block(request: Request) -> None:
    """Block the handler, if the request asks for it."""
    if request.context.client_id == CLIENT:
        time.sleep(BLOCKED_S)


if __name__ == "__main__":
    main()
