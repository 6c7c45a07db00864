"""The metrics over HTTP, as Prometheus reads them."""

import http.client
import re
import socket
import struct

import pytest

from tests.support.eventually import WAIT_S
from tests.support.ports import free_port
from twisted_kafka.broker.broker import Broker, StartError

pytestmark = pytest.mark.medium

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def ask_versions(broker: Broker, times: int) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as client:
        for _ in range(times):
            client.sendall(API_VERSIONS)
            size = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))[0]
            client.recv(size, socket.MSG_WAITALL)


def test_requests_are_counted_where_prometheus_reads() -> None:
    port = free_port()
    with Broker({"metrics.listener": f"127.0.0.1:{port}"}) as broker:
        ask_versions(broker, 5)
        reader = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        for path, status in (("/metrics", 200), ("/other", 404), ("/metrics", 200)):
            reader.request("GET", path)
            answer = reader.getresponse()
            page = answer.read().decode()
            assert answer.status == status
        assert (answer.getheader("content-type") or "").startswith("text/plain; version=0.0.4")
        # The last answer is counted when it is sent, which may be after the client has it.
        counted = re.findall(
            r'^kafka_network_requestmetrics_requests_total\{request="ApiVersions",version="0"\} (\d+)\.0$', page, re.M
        )
        assert counted in (["4"], ["5"])
    with pytest.raises(OSError, match="refused"):
        http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S).request("GET", "/metrics")
    reader.close()


def test_a_taken_address_is_one_line_and_nothing_is_left_running() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=rf"^Cannot listen at 127.0.0.1:{port} \(metrics.listener\): Address already in use;"):
            Broker({"metrics.listener": f"127.0.0.1:{port}"}).start()
