"""The schema registry of the testing kit, over HTTP and with Confluent's Python serializers."""

import json
import pickle
import re
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from twisted_kafka.testing import Broker, Cluster, RegistryAnswer, RegistryError, RegistryRule, SchemaRegistry
from twisted_kafka.testing.http_server import MAX_BODY_BYTES

confluent = pytest.importorskip("confluent_kafka.schema_registry")
pytest.importorskip("httpx2")
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient  # noqa: E402
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer  # noqa: E402
from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: E402
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer  # noqa: E402
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "string"}}})
VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker() as broker:
        yield broker


@pytest.fixture
def registry(broker: Any) -> Any:
    with SchemaRegistry(broker, topic=f"_schemas-{threading.get_ident()}-{broker.clock.monotonic_ns()}") as registry:
        yield registry


@pytest.fixture
def client(registry: Any) -> Any:
    return new_client(registry)


def new_client(registry: Any, **settings: Any) -> Any:
    return SchemaRegistryClient({"url": registry.url, "max.retries": 1, "retries.wait.ms": 1, "retries.max.wait.ms": 1, **settings})


def get(url: Any, method: Any = "GET", body: Any = None, content_type: Any = "application/json") -> Any:
    request = urllib.request.Request(url, method=method, data=body, headers={"Content-Type": content_type})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read(), answer.headers["Content-Type"]
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers["Content-Type"]


def messages() -> Any:
    """Return two classes of messages, the second with the first in another file."""
    line = descriptor_pb2.FileDescriptorProto(name="line.proto", package="shop", syntax="proto3")
    line.message_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    order = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3", dependency=["line.proto"])
    fields = order.message_type.add(name="Order").field
    fields.add(name="id", number=1, type=9, label=1)
    fields.add(name="lines", number=2, type=11, label=3, type_name=".shop.Line")
    pool = descriptor_pool.DescriptorPool()
    for file in (line, order):
        pool.AddSerializedFile(file.SerializeToString())
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Line", "Order")]


def test_avro_is_written_and_read(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    written = AvroSerializer(client, AVRO)({"id": "7"}, VALUE)
    assert written[:5] == b"\0\0\0\0\1"
    assert AvroDeserializer(new_client(registry))(written, VALUE) == {"id": "7"}
    assert registry.subjects() == ["orders-value"]
    assert registry.requests.of("register").where(subject="orders-value", schema_type="AVRO").count() == 1
    assert registry.requests.of("getSchema").where(schema_id=1)[0].response["schema"] == registry.schema(1).schema


def test_json_is_written_and_read(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    written = JSONSerializer(JSON, client)({"id": "7"}, VALUE)
    assert JSONDeserializer(JSON, schema_registry_client=new_client(registry))(written, VALUE) == {"id": "7"}
    assert registry.version("orders-value").schema_type == "JSON"


def test_protobuf_is_written_and_read_with_its_references(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    line, order = messages()
    settings = {"use.deprecated.format": False}
    given = order(id="7", lines=[line(sku="a"), line(sku="b")])
    written = ProtobufSerializer(order, client, settings)(given, VALUE)
    read = ProtobufDeserializer(order, settings, new_client(registry))(written, VALUE)
    assert (read.id, [each.sku for each in read.lines]) == ("7", ["a", "b"])
    assert registry.subjects() == ["line.proto", "orders-value"]
    stored = registry.version("orders-value")
    assert [each.name for each in stored.references] == ["line.proto"]
    assert "repeated Line lines = 2;" in stored.schema
    assert client.get_latest_version("orders-value").schema.schema_str == stored.schema


def test_the_client_sees_the_same_registry(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    first = client.register_schema("a", Schema(AVRO, "AVRO"))
    client.set_compatibility("a", "FULL")
    assert client.get_compatibility("a") == "FULL"
    worse = AVRO.replace('"string"}]', '"string"}, {"name": "x", "type": "int"}]')
    assert not client.test_compatibility("a", Schema(worse, "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("a", Schema(worse, "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert client.lookup_schema("a", Schema(AVRO, "AVRO")).schema_id == first
    assert client.get_subjects() == ["a"]
    assert client.get_versions("a") == [1]
    order = '{"type": "record", "name": "Big", "fields": [{"name": "order", "type": "Order"}]}'
    assert client.register_schema("b", Schema(order, "AVRO", [SchemaReference("Order", "a", 1)])) == 2
    assert client.get_referenced_by("a", 1) == [2]
    with pytest.raises(SchemaRegistryError, match="42206"):
        client.delete_subject("a")
    assert client.delete_subject("b") == [1]
    assert client.set_mode("READONLY") if hasattr(client, "set_mode") else client.update_global_mode("READONLY") == "READONLY"
    with pytest.raises(SchemaRegistryError, match="42205"):
        client.register_schema("c", Schema(AVRO, "AVRO"))


def test_schemas_outlive_the_registry_and_the_broker() -> None:
    with Broker() as broker:
        with SchemaRegistry(broker) as registry:
            registry.register("a", AVRO)
            address = registry.url
            registry.restart()
            assert registry.url == address
            with registry.down(), pytest.raises(OSError, match="refused"):
                get(f"{address}/subjects")
            broker.restart()
            assert registry.subjects() == ["a"]
            snapshot = broker.snapshot()
            registry.register("b", JSON, "JSON")
            broker.restore(snapshot)
            assert registry.subjects() == ["a"]
            assert registry.register("c", JSON, "JSON") == 2
            broker.reset()
            assert registry.subjects() == []
            registry.register("d", AVRO)
            broker.delete_topic("_schemas")
            assert registry.subjects() == []
            registry.register("e", AVRO)
            with broker.down():
                assert get(f"{address}/subjects")[:1] == (500,)
                assert registry.requests[-1].error == 50001
        with SchemaRegistry(broker) as another:
            assert another.subjects() == ["e"]
        assert broker.topics() == ["_schemas"]


def test_it_works_beside_a_cluster() -> None:
    with Cluster(2) as cluster, SchemaRegistry(cluster) as registry:
        assert registry.register("a", AVRO) == 1
        cluster.kill(cluster.leader_of("_schemas"))
        cluster.wait_for_leader("_schemas")
        assert registry.versions("a") == [1]


def test_an_error_instead_of_an_answer_is_retried(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    with registry.faults.inject(api="register", subject="orders-value", error=50001, times=1) as fault:
        AvroSerializer(client, AVRO)({"id": "7"}, VALUE)
    assert fault.fired == 1
    first, second = registry.requests.of("register")
    assert (first.error, first.status, first.fault, second.error) == (50001, 500, str(fault.rule), None)
    assert "register" in fault.firings[0]


@pytest.mark.parametrize(
    ("rule", "outcome", "stored"),
    [
        ({"close": "before"}, "closed", False),
        ({"close": "after"}, "closed", True),
        ({"half_response": True}, "half", True),
        ({"lose_request": True}, "dropped", False),
        ({"lose_response": True}, "lost", True),
    ],
)
def test_an_answer_that_does_not_come(registry: SchemaRegistry, rule: dict[str, Any], outcome: str, stored: bool) -> None:
    client = new_client(registry, **{"timeout": 0.3, "max.retries": 0})
    with registry.faults.inject(api="register", **rule), pytest.raises(Exception, match=r".") as failed:
        client.register_schema("a", Schema(AVRO, "AVRO"))
    assert not isinstance(failed.value, SchemaRegistryError)
    assert registry.requests.of("register")[0].outcome == outcome
    assert (registry.subjects() == ["a"]) is stored


def test_an_answer_that_is_no_json(registry: SchemaRegistry) -> None:
    with registry.faults.inject(method="GET", corrupt_response=True):
        assert get(f"{registry.url}/subjects")[1] == b"\xff" * 2


def test_a_held_request_is_handled_when_the_test_says_so(registry: SchemaRegistry) -> None:
    answers = []
    asking = threading.Thread(target=lambda: answers.append(get(f"{registry.url}/subjects")))
    with registry.faults.inject(api="list", hold_request=True) as fault:
        asking.start()
        fault.wait_for(1)
        registry.register("a", AVRO)
        fault.release()
        asking.join(30)
    assert json.loads(answers[0][1]) == ["a"]


def test_delays_are_by_the_brokers_clock(broker: Broker, registry: SchemaRegistry) -> None:
    answers = []
    fired_before = []

    def decide(request: Any) -> Any:
        fired_before.append(fault.fired)  # else the clock could be advanced before the answer waits for it
        return {"delay_ms": 60_000}

    asking = threading.Thread(target=lambda: answers.append(get(f"{registry.url}/config")))
    with broker.clock.held(), registry.faults.inject(api="getTopLevelConfig", call=decide) as fault:
        asking.start()
        fault.wait_for(1)
        assert not registry.requests
        broker.clock.advance(minutes=1)
        asking.join(30)
    assert (answers[0][0], fired_before) == (200, [0])
    assert registry.requests[0].answered_ms - registry.requests[0].arrived_ms >= 60_000


def test_a_function_decides(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    def decide(request: Any) -> Any:
        if request.subject == "a":
            return RegistryAnswer(418, {"error_code": 41801, "message": request.fields["schema"][:1]})
        return {"error": 40403} if request.subject == "b" else None

    with registry.faults.inject(api="register", call=decide):
        for subject, code in (("a", 41801), ("b", 40403)):
            with pytest.raises(SchemaRegistryError) as refused:
                client.register_schema(subject, Schema(AVRO, "AVRO"))
            assert refused.value.error_code == code
        assert client.register_schema("c", Schema(AVRO, "AVRO")) == 1
    with pytest.raises(TypeError, match="expected a RegistryAnswer"), registry.faults.inject(call=lambda request: 7):
        assert get(registry.url)[0] == 500


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"api": "registr", "error": 500}, "did you mean 'register'"),
        ({"method": "get", "error": 500}, "expected one of GET"),
        ({"api": "register"}, "does nothing"),
        ({"error": 200}, "expected a code like 50001"),
        ({"error": 500, "close": "before"}, "make two rules"),
        ({"error": 500, "nth": 0}, "expected 1 or more"),
        ({"error": "500"}, "expected a whole number"),
        ({"close": "now"}, "expected 'before' or 'after'"),
        ({"lose_request": True, "hold": True}, "cannot be combined"),
        ({"topic": "orders", "error": 500}, "a rule has no 'topic', only api"),
    ],
)
def test_rules_that_cannot_fire_are_rejected_in_one_line(registry: SchemaRegistry, rule: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught, registry.faults.inject(**rule):
        pass
    assert "\n" not in str(caught.value)


def test_requests_are_selected_and_waited_for(registry: SchemaRegistry) -> None:
    get(f"{registry.url}/subjects/a/versions/latest?deleted=true")
    get(f"{registry.url}/config", "PUT", b'{"compatibility": "NONE"}')
    get(f"{registry.url}/nope")
    (asked,) = registry.requests.of("getSchemaByVersion")
    assert (asked.subject, asked.version, asked.query, asked.error) == ("a", "latest", {"deleted": "true"}, 40401)
    assert registry.requests.where(compatibility="NONE").wait_for(1)[0].method == "PUT"
    assert [each.error for each in registry.requests] == [40401, None, 404]
    assert "GET /subjects/a/versions/latest  getSchemaByVersion from 127.0.0.1:" in str(asked)
    assert "-> 40401 in" in repr(registry.requests)
    for wrong in ({"subjet": "a"}, {"outcome": "good"}, {"api": "nope"}):
        with pytest.raises(ValueError, match=r"there is no|have no"):
            registry.requests.where(**wrong)
    with pytest.raises(ValueError, match="did you mean 'register'"):
        registry.requests.of("registers")
    with pytest.raises(TimeoutError, match=r"0 of 1 requests register came in 0.01 s"):
        registry.requests.of("register").wait_for(1, timeout_s=0.01)
    registry.clear_state()
    assert not registry.requests


def test_http_is_as_confluents(registry: SchemaRegistry) -> None:
    status, body, content_type = get(f"{registry.url}/")
    assert (status, body, content_type) == (200, b"{}", "application/vnd.schemaregistry.v1+json")
    registry.register("a b/c", AVRO)
    assert get(f"{registry.url}/subjects/a%20b%2Fc/versions")[1] == b"[1]"
    assert get(f"{registry.url}/schemas/ids/1/schema")[2] == "text/plain"
    assert get(f"{registry.url}/subjects/a/versions", "POST", b"{")[0] == 400
    assert get(f"{registry.url}/subjects/a/versions", "POST", b"{}", "text/html")[0] == 415
    assert get(f"{registry.url}/subjects", "PUT")[0] == 405
    status, body, _ = get(f"{registry.url}/subjects/a/versions", "POST", b" " * (MAX_BODY_BYTES + 1))
    assert (status, json.loads(body)["error_code"]) == (413, 413)


def test_a_schema_that_no_record_can_carry_is_too_large(registry: SchemaRegistry) -> None:
    with pytest.raises(RegistryError) as refused:
        registry.register("a", {"title": "x" * 1_100_000}, "JSON")
    assert refused.value.code == 42209


def test_wrong_uses_are_explained_in_one_line(broker: Broker, registry: SchemaRegistry) -> None:
    with pytest.raises(TypeError, match="expected a Broker or a Cluster"):
        SchemaRegistry(broker.bootstrap_servers)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="does not run"):
        _ = SchemaRegistry(broker).url
    with pytest.raises(RuntimeError, match="runs already"):
        registry.start()
    with pytest.raises(OSError, match=r"cannot listen at 127\.0\.0\.1"):
        SchemaRegistry(broker, port=int(registry.url.rpartition(":")[2])).start()
    with pytest.raises(RegistryError, match=r"Subject 'a' not found"):
        registry.versions("a")
    with pytest.raises(ValueError, match="does nothing"):
        SchemaRegistry(broker, rules=[{"api": "register"}])
    assert repr(registry) == f"<SchemaRegistry {registry.url}>"


def test_rules_from_the_start_come_back(broker: Broker) -> None:
    with SchemaRegistry(broker, rules=[RegistryRule(api="list", error=503)]) as registry:
        registry.faults.clear()
        assert get(f"{registry.url}/subjects")[0] == 200
        registry.clear_state()
        assert get(f"{registry.url}/subjects")[0] == 503


def test_a_package_that_is_missing_is_named_with_its_command(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proto_schema_parser", None)
    with pytest.raises(ImportError, match=r"needs the package proto_schema_parser: pip install .*schema-registry"):
        SchemaRegistry(broker)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda registry: registry.register("a", 7), "the schema 7 is of type int: expected a text, or JSON as Python has it"),
        (lambda registry: registry.register({}, "a"), "the subject {} is of type dict"),
        (lambda registry: registry.register("a", AVRO, "avro"), "expected one of JSON, PROTOBUF, AVRO: did you mean 'AVRO'?"),
        (lambda registry: registry.register("a", AVRO, references=[("a", "b")]), "expected a name, a subject and a version"),
        (
            lambda registry: registry.register("a", AVRO, references=[("a", "b", "1")]),
            "the version of a reference '1' is of type str",
        ),
        (lambda registry: registry.set_compatibility(5), "the level 5 is of type int"),
        (lambda registry: registry.set_compatibility("backwards"), "Valid values are none, backward, "),
        (lambda registry: registry.set_mode(None), "the mode None is of type NoneType"),
        (lambda registry: registry.schema("1"), "the schema_id '1' is of type str: expected a whole number"),
        (lambda registry: registry.version(5), "the subject 5 is of type int"),
        (lambda registry: registry.versions(5), "the subject 5 is of type int"),
        (lambda registry: registry.delete_subject(5), "the subject 5 is of type int"),
        (lambda registry: registry.version("a", "newest"), "The specified version 'newest' is not a valid version id"),
        (pickle.dumps, "a SchemaRegistry cannot be copied or sent to another process: send its url"),
    ],
)
def test_a_wrong_argument_is_explained_in_one_line(registry: SchemaRegistry, call: Callable[[Any], object], why: str) -> None:
    with pytest.raises((TypeError, RegistryError), match=re.escape(why)) as raised:
        call(registry)
    assert "\n" not in str(raised.value)
