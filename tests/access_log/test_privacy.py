import json
from typing import Any

from tests.access_log.samples import NOW_MS, request
from twisted_kafka.access_log.privacy import FieldPolicy
from twisted_kafka.access_log.record import LineMaker
from twisted_kafka.network.requests.request_context import ConnectionInfo, ResourceKind, TransactionNote, TransactionOutcome
from twisted_kafka.timing.clock import ManualClock

CONNECTION = "10.0.0.1:9092-192.168.7.7:51234-12"


def transactional_id(policy: FieldPolicy) -> str | None:
    note = TransactionNote("billing-1", TransactionOutcome.COMMITTED, 5)
    found = json.loads(LineMaker(3, ManualClock(NOW_MS), 2, 3, policy).own_line(note, []))["transaction"]
    assert found["outcome"] == "committed"
    shown: str | None = found.get("id")
    return shown


def test_transactional_ids_are_left_out_and_hashed_like_fields() -> None:
    assert transactional_id(FieldPolicy()) == "billing-1"
    assert transactional_id(FieldPolicy(excluded=("transactional_id",))) is None
    hashed = [transactional_id(FieldPolicy(hashed=("transactional_id",), key=key)) for key in ("a", "a", "b")]
    assert hashed[0] == hashed[1]
    assert len({*hashed, "billing-1"}) == 3


def shown(policy: FieldPolicy, connection_id: str = CONNECTION, client_id: str | None = "app") -> dict[Any, Any]:
    connection = ConnectionInfo(connection_id, "INSIDE", "PLAINTEXT", "192.168.7.7")
    return json.loads(LineMaker(3, ManualClock(NOW_MS), 2, 3, policy).line(request(client_id, connection)))


def test_fields_can_be_left_out() -> None:
    line = shown(FieldPolicy(excluded=("client_id", "principal", "connection")))
    assert not {"client_id", "principal", "connection"} & set(line)
    assert line["listener"] == "INSIDE"


def test_hashed_fields_tell_clients_apart_and_nothing_else() -> None:
    policy = FieldPolicy(hashed=("client_id", "principal", "connection"), key="secret")
    one, again, other = shown(policy), shown(policy), shown(policy, CONNECTION.replace("7.7", "7.8"), "app2")
    assert "app" not in one["client_id"]
    assert "ANONYMOUS" not in one["principal"]
    assert "192.168.7.7" not in one["connection"]
    assert "51234" not in one["connection"]
    assert one["connection"].startswith("10.0.0.1:9092-")
    assert one["connection"].endswith("-12")
    assert (one["client_id"], one["connection"]) == (again["client_id"], again["connection"])
    assert one["client_id"] != other["client_id"]
    assert one["connection"] != other["connection"]
    assert one["principal"] == other["principal"]


def subjects(policy: FieldPolicy) -> dict[Any, Any]:
    made = request("app", ConnectionInfo(CONNECTION, "INSIDE", "PLAINTEXT", "192.168.7.7"))
    made.context.group = "billing", "app-42", 3
    for kind, name in RESOURCES.items():
        made.context.note_resource(kind, name)
    return json.loads(LineMaker(3, ManualClock(NOW_MS), 9, 3, policy).line(made))


RESOURCES = {
    ResourceKind.GROUP: "billing",
    ResourceKind.USER: "User:ANONYMOUS",
    ResourceKind.CLIENT_ID: "app",
    ResourceKind.IP: "192.168.7.7",
    ResourceKind.TRANSACTIONAL_ID: "tx",
    ResourceKind.BROKER: "3",
}
HIDDEN = ("group_id", "principal", "client_id", "connection", "transactional_id")


def test_names_of_resources_are_hashed_like_the_fields_that_they_are_values_of() -> None:
    found = subjects(FieldPolicy(hashed=HIDDEN))
    names = {each["type"]: each["name"] for each in found["resources"]}
    assert (names["group"], names["user"], names["client-id"]) == (found["group_id"], found["principal"], found["client_id"])
    assert names["ip"] in found["connection"]
    assert not {*RESOURCES.values()} & {name for kind, name in names.items() if kind != "broker"}
    assert names["broker"] == "3"


def test_names_of_resources_are_left_out_with_the_fields() -> None:
    found = subjects(FieldPolicy(excluded=HIDDEN))
    assert [each for each in found["resources"] if "name" in each] == [{"type": "broker", "name": "3"}]
    assert "group_id" not in found
    assert found["generation"] == 3


def test_a_member_id_tells_no_more_than_the_client_id() -> None:
    assert subjects(FieldPolicy())["member_id"] == "app-42"
    assert "member_id" not in subjects(FieldPolicy(excluded=("client_id",)))
    assert "app" not in subjects(FieldPolicy(hashed=("client_id",)))["member_id"]


def test_the_key_makes_the_hash_and_without_one_no_two_runs_agree() -> None:
    hashed = [shown(FieldPolicy(hashed=("client_id",), key=key))["client_id"] for key in ("a", "a", "b", None, None)]
    assert hashed[0] == hashed[1]
    assert len(set(hashed)) == 4


def test_null_stays_null_and_ipv6_addresses_are_hashed_whole() -> None:
    policy = FieldPolicy(hashed=("client_id", "connection"), key="secret")
    assert shown(policy, client_id=None)["client_id"] is None
    line = shown(policy, "[::1]:9092-fe80::7:51234-3")
    assert "fe80" not in line["connection"]
    assert line["connection"].endswith("-3")
