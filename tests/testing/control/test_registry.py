"""The schema registry over the control API."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.support.control_client import ControlClient
from twisted_kafka.testing import Broker, ControlServer, RegistryError, SchemaRegistry

AVRO = '"string"'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def registry(broker: Broker) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(broker) as registry:
        yield registry


@pytest.fixture
def control(broker: Broker, registry: SchemaRegistry) -> Iterator[ControlClient]:
    with ControlServer(broker, registry=registry) as server:
        yield ControlClient(server.url, server.token)


class RegistryClient:
    """A client of the registry."""

    def __init__(self, url: str) -> None:
        self._url = url

    def status(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self._url + path, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


def test_rules_and_requests(registry: SchemaRegistry, control: ControlClient) -> None:
    client = RegistryClient(registry.url)
    rule = control.post("/schema-registry/faults", api="list", error=50001, times=1)
    assert rule["rule"] == {"api": "list", "times": 1, "error": 50001}
    assert [client.status("/subjects"), client.status("/subjects"), client.status("/subjects/a/versions")] == [500, 200, 404]
    assert control.get(f"/schema-registry/faults/{rule['id']}")["fired"] == 1
    first, second = control.get("/schema-registry/requests", api="list")["requests"]
    assert (first["error"], second["error"], second["response"]) == (50001, None, [])
    (found,) = control.get("/schema-registry/requests", error="40401")["requests"]
    assert (found["subject"], found["api"]) == ("a", "listVersions")
    answer = control.get("/schema-registry/requests", limit=1)
    assert (answer["more"], answer["requests"][0]["subject"]) == (True, "a")
    assert control.delete(f"/schema-registry/faults/{rule['id']}")["fired"] == 1
    both = control.send("POST", "/schema-registry/faults", b'[{"error": 503}, {"delay_ms": 1}]').body["faults"]
    assert len(both) == 2
    assert len(control.delete("/schema-registry/faults")["faults"]) == 2
    control.delete("/schema-registry/requests")
    assert control.get("/schema-registry/requests") == {"requests": [], "more": False}


def test_a_held_request_is_waited_for_and_released(registry: SchemaRegistry, control: ControlClient) -> None:
    held = control.post("/schema-registry/faults", hold=True)
    asking = threading.Thread(target=RegistryClient(registry.url).status, args=["/subjects"])
    asking.start()
    next(iter(registry.faults)).wait_for(1)
    control.post(f"/schema-registry/faults/{held['id']}/release")
    assert control.post("/schema-registry/waits", requests={"api": "list"}, count=1)["requests"][0]["status"] == 200
    asking.join(30)
    assert (
        "0 of 1 requests"
        in control.refused("POST", "/schema-registry/waits", {"requests": {"api": "register"}, "timeout_s": 0.01}).body
    )


def test_it_stops_starts_and_is_reset(broker: Broker, registry: SchemaRegistry, control: ControlClient) -> None:
    assert control.get("/")["schema_registry_url"] == registry.url
    registry.register("a", AVRO)
    control.post("/schema-registry/stop")
    assert not registry.is_running
    assert control.post("/schema-registry/start") == {"schema_registry_url": registry.url}
    assert registry.subjects() == ["a"]
    RegistryClient(registry.url).status("/subjects")
    control.post("/reset")
    assert registry.subjects() == []
    assert not registry.requests
    with pytest.raises(RegistryError):
        registry.versions("a")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/schema-registry/faults", {"api": "registers", "error": 500}, 400),
        ("POST", "/schema-registry/faults", 7, 400),
        ("GET", "/schema-registry/faults/7", None, 404),
        ("GET", "/schema-registry/requests?topic=a", None, 400),
        ("GET", "/schema-registry/requests?status=x", None, 400),
        ("POST", "/schema-registry/waits", {"timeout_s": -1}, 400),
        ("POST", "/schema-registry/start", None, 409),
    ],
)
def test_wrong_calls_are_explained(control: ControlClient, method: str, path: str, body: object, status: int) -> None:
    assert control.refused(method, path, body).status == status


def test_without_a_registry_the_calls_say_how_to_start_one(broker: Broker) -> None:
    with ControlServer(broker) as server:
        control = ControlClient(server.url, server.token)
        assert "--schema-registry" in control.refused("GET", "/schema-registry/faults").body
        assert "schema_registry_url" not in control.get("/")
