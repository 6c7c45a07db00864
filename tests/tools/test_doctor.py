"""``twisted-kafka doctor`` against a broker, and against what is none."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import twisted_kafka
from tests.support.eventually import WAIT_S
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from twisted_kafka.protocol.messages.coordinators.groups import JoinGroupRequest, JoinGroupRequestProtocol
from twisted_kafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from twisted_kafka.testing import Broker
from twisted_kafka.tools.main import main


@contextmanager
def something_that_answers(answer: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(30)


def test_a_broker_that_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    with twisted_kafka.Broker() as broker:
        assert main(["doctor", broker.bootstrap_servers]) == 0
        lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["ok", "ok", "ok"]
    assert lines[1] == f"ok: broker {broker.broker_id} advertises {broker.bootstrap_servers}"


def test_a_broker_that_advertises_an_address_where_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with twisted_kafka.Broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as broker:
            assert main(["doctor", broker.bootstrap_servers]) == 1
    assert f"advertises 127.0.0.1:{port}, and clients connect there next, but" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "requires TLS"),
        (b"HTTP/1.1 400 No\r\n\r\n", "web server"),
        pytest.param(b"", "closes the connection", marks=pytest.mark.slow),
        (b"\0\0\0\6\0\0\0\1\0\0", "is not a Kafka broker"),
        (b"\0\0\0\6\0\0", "does not answer like a Kafka broker"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer like a Kafka broker"),
    ],
)
def test_what_is_no_plain_text_listener(answer: bytes, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with something_that_answers(answer) as address:
        assert main(["doctor", address]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("problem: ")
    assert told in printed


@contextmanager
def a_broker_that_tells(metadata: MetadataResponse, elsewhere: str = "", *, is_another: bool = False) -> Iterator[str]:
    """Answer the requests that doctor sends: versions, the cluster, and what the one broker's advertised address says of itself.

    ``is_another``: another broker answers there, one of Kafka 4.4.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        metadata.brokers = [MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port)]
        itself = MetadataResponse(cluster_id=elsewhere or metadata.cluster_id)
        versions = [ApiVersion(api_key=ApiKey.API_VERSIONS, max_version=5)] if is_another else []
        answers = [ApiVersionsResponse(api_keys=versions).encode(0), metadata.encode(2), itself.encode(2)]
        if is_another:
            answers.append(ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED).encode(5))

        def serve() -> None:
            for answer in answers:
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall((len(answer) + 4).to_bytes(4, "big") + (1).to_bytes(4, "big") + answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{port}"
        thread.join(30)


def partition(leader_id: int, isr_nodes: list[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(leader_id=leader_id, replica_nodes=[1, 2, 3], isr_nodes=isr_nodes)


def test_a_cluster_that_is_ill(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = [partition(1, [1, 2, 3]), partition(1, [1, 2]), partition(-1, [])]
    topics = [MetadataResponseTopic(name="orders", partitions=partitions)]
    with a_broker_that_tells(MetadataResponse(cluster_id="ours", topics=topics), elsewhere="theirs") as address:
        assert main(["doctor", address]) == 1
    _, *told = capsys.readouterr().out.splitlines()
    assert told == [
        "problem: the cluster has no controller: check the brokers' logs, and ZooKeeper or the quorum",
        f"problem: broker 1 advertises {address}, but another cluster answers there: theirs, not ours",
        "problem: 1 of 3 partitions have no leader: start the brokers with their replicas",
        "warning: 2 of 3 partitions are under-replicated: a broker is down or slow",
    ]


def test_an_address_that_leads_to_another_broker_of_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    with a_broker_that_tells(MetadataResponse(cluster_id="ours", controller_id=1), is_another=True) as address:
        assert main(["doctor", address]) == 1
    assert capsys.readouterr().out.splitlines()[1] == (
        f"problem: broker 1 advertises {address}, but another broker of the cluster answers there; "
        "give each broker an address of its own in advertised.listeners"
    )


def test_what_is_only_behind_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    topics = [MetadataResponseTopic(name="orders", partitions=[partition(1, [1])])]
    with a_broker_that_tells(MetadataResponse(cluster_id="ours", controller_id=1, topics=topics)) as address:
        assert main(["doctor", address]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("warning: 1 of 1 partitions")


def test_an_address_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "localhost"]) == 2
    assert "expected HOST:PORT" in capsys.readouterr().err


@pytest.mark.medium
@pytest.mark.parametrize(
    ("persona", "told"),
    [
        ("0.11", "warning: the broker is older than Kafka 2.1: Java clients 4.0 and newer reject it"),
        ("4.1", "note: the broker is Kafka 4.0 or newer: clients older than 2.1 do not work with it"),
    ],
)
def test_clients_that_are_too_new_or_too_old_for_it(persona: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with twisted_kafka.Broker(persona=persona) as broker:
        assert main(["doctor", broker.bootstrap_servers]) == 0
    assert told in capsys.readouterr().out


def test_topics_that_nobody_creates(capsys: pytest.CaptureFixture[str]) -> None:
    with twisted_kafka.Broker({"auto.create.topics.enable": False}) as broker:
        assert main(["doctor", broker.bootstrap_servers]) == 0
    assert (
        "note: the broker does not create topics when clients ask for them (auto.create.topics.enable=false)"
        in capsys.readouterr().out
    )


def test_a_group_that_is_rebalancing(capsys: pytest.CaptureFixture[str]) -> None:
    join = JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    frame = encode_request_header(join.KEY, 2, 1, "shop") + join.encode(2)
    with Broker({"group.initial.rebalance.delay.ms": 600_000}) as broker:
        broker.wait_for(lambda: broker.coordinator_id("billing"), lambda found: found >= 0, "a coordinator")
        with socket.create_connection(("127.0.0.1", int(broker.bootstrap_servers.split(":")[1])), WAIT_S) as connection:
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            broker.wait_for_group("billing", "PreparingRebalance")
            assert main(["doctor", broker.bootstrap_servers]) == 0
    assert "warning: rebalancing now: billing; look again; if the group still rebalances" in capsys.readouterr().out
