"""The cost of a login in Python, without sockets: a connection's objects, frames, queue, handlers, metrics, on one thread.

    python -m benchmarks.login_path [--rounds 200] [--profile MECHANISM]

Prints the fastest of many rounds, and the median, in microseconds of processor time for each login. What the client computes is not
counted. A login is a new connection, ApiVersions, the requests of the mechanism, and the end of the connection; the first line is a
connection with ApiVersions only. The steps are those of ``benchmarks.request_path``.
"""

import argparse
import cProfile
import functools
import pstats
import statistics
import sys
import time
from collections.abc import Generator
from typing import Any

from benchmarks.request_path import CAPTURED, OneThread, Wire, capture_parts
from benchmarks.scratch import scratch
from benchmarks.security import MECHANISMS, PASSWORD, USER, make_user, settings
from benchmarks.tls import API_VERSIONS, frame
from tests.support.ports import free_port
from tests.support.security.scram_client import ScramClient
from twisted_kafka import Broker
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.sasl_channel_builder import SaslChannelBuilder
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest
from twisted_kafka.security.scram import formulas
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS

WARM_UP, PER_ROUND = 5_000, 50
BODY_OFFSET = 8
"""Of a response, with its size."""
PLAINTEXT = "a connection without"


class KeptWire(Wire):
    """Keeps what was sent last."""

    sent: bytes = b""

    def send(self, parts: Any, size_bytes: int) -> bool:
        (part,) = parts
        self.sent = part
        return True


def steps(mechanism: str) -> Generator[bytes, bytes, None]:
    """Yield the frames of a login; it is sent each response."""
    if mechanism == PLAINTEXT:
        yield API_VERSIONS
        return
    yield frame(SaslHandshakeRequest(mechanism=mechanism), 1)
    if mechanism == "PLAIN":
        yield authenticate(f"\0{USER}\0{PASSWORD}".encode())
    else:
        client = ScramClient(USER, PASSWORD, next(each for each in SCRAM_MECHANISMS if each.name == mechanism))
        answer = yield authenticate(client.first())
        final = yield authenticate(client.final(token_of(answer)))
        assert client.is_server(token_of(final))
    yield API_VERSIONS


def authenticate(token: bytes) -> bytes:
    return frame(SaslAuthenticateRequest(auth_bytes=token), 1)


def token_of(response: bytes) -> bytes:
    answer = SaslAuthenticateResponse.decode(response, 1, BODY_OFFSET)
    assert not answer.error_code, answer.error_message
    return bytes(answer.auth_bytes)


class OneListener(OneThread):
    """The connections of one listener."""

    def __init__(self, name: str) -> None:
        super().__init__()
        processor = next(each for each in CAPTURED[SocketServer].processors if each.settings.listener_name == name)
        self._processor.settings = processor.settings
        self._processor.new_connections._settings = processor.settings
        builder = processor.settings.channel_builder
        self._count = processor.settings.quotas.inc
        self._builder = builder if isinstance(builder, SaslChannelBuilder) else None

    def login(self, mechanism: str) -> float:
        """Log in, and return the seconds of processor time that it took."""
        wire = KeptWire()
        began = time.thread_time()
        info = self._processor.new_connections.describe(("127.0.0.1", 9092), ("127.0.0.1", 40_000))
        self._count(info.listener_name, info.client_address)
        channel = KafkaChannel(info, self._processor, 100_000_000)
        if self._builder is not None:
            channel.authenticate_with(self._builder._authentication.authenticator(info), self._builder._limits.max_receive_bytes)
        channel.transport = wire  # type: ignore[assignment]
        self._processor.add_channel(channel)
        took = time.thread_time() - began
        requests = steps(mechanism)
        data = next(requests)
        while True:
            began = time.thread_time()
            channel.dataReceived(data)
            self._processor.handle_requests()
            took += time.thread_time() - began
            try:
                data = requests.send(wire.sent)
            except StopIteration:
                break
        began = time.thread_time()
        channel.connectionLost()
        return took + time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.login_path", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--profile", metavar="MECHANISM")
    options = parser.parse_args()
    # Otherwise the client's milliseconds would empty the processor's caches before each step.
    sys.modules[ScramClient.__module__].salted_password = functools.cache(formulas.salted_password)  # type: ignore[attr-defined]
    capture_parts()
    plain, sasl = free_port(), free_port()
    with scratch() as directory, Broker(settings(f"PLAINTEXT://127.0.0.1:{plain}", sasl, None), data_dir=directory):
        make_user(plain)
        print(f"{'us of processor time':24} {'fastest':>8} {'median':>8}")
        for mechanism in (PLAINTEXT, *(each for each in MECHANISMS if each != "GSSAPI")):
            path = OneListener("PLAINTEXT" if mechanism == PLAINTEXT else "SASL_PLAINTEXT")
            for _ in range(WARM_UP):
                path.login(mechanism)
            profiler = cProfile.Profile()
            if options.profile == mechanism:
                profiler.enable()
            rounds = [sum(path.login(mechanism) for _ in range(PER_ROUND)) / PER_ROUND * 1e6 for _ in range(options.rounds)]
            profiler.disable()
            print(f"{mechanism:24} {min(rounds):8.1f} {statistics.median(rounds):8.1f}", flush=True)
            if options.profile == mechanism:
                pstats.Stats(profiler).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
