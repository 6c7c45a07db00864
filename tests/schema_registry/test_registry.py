"""The registry's operations, by requests as HTTP brings them."""

import json
from typing import Any

import pytest

from tests.schema_registry.memory_log import MemoryLog, MemoryTopic
from twisted_kafka.schema_registry.api import PlainText, find, form_of, read_body
from twisted_kafka.schema_registry.errors import RegistryError
from twisted_kafka.schema_registry.registry import Registry

INT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
WITH_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":1}]}'
WITHOUT_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"c","type":"int"}]}'
LINE = '{"type":"record","name":"Line","fields":[]}'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"line","type":"Line"}]}'
REFERENCES = [{"name": "Line", "subject": "line", "version": 1}]


class Client:
    """Sends requests to a registry, as an HTTP client does to its server."""

    def __init__(self, topic: Any = None) -> None:
        self.topic = topic or MemoryTopic()
        self.registry = Registry(MemoryLog(self.topic))

    def __call__(self, method: Any, uri: Any, **body: Any) -> Any:
        asked = find(method, uri)
        sent = read_body(json.dumps(body).encode() if body else b"", "application/json")
        return form_of(self.registry, asked._replace(call=type(asked.call)(asked.call.names, asked.call.query, sent)))

    def register(self, subject: Any, schema: Any, **more: Any) -> Any:
        return self("POST", f"/subjects/{subject}/versions", schema=schema, **more)["id"]

    def fails(self, code: Any, method: Any, uri: Any, **body: Any) -> Any:
        with pytest.raises(RegistryError) as caught:
            self(method, uri, **body)
        assert caught.value.code == code, caught.value
        assert caught.value.status == int(str(code)[:3])
        return str(caught.value)

    def known(self) -> Any:
        """Return all that a client can see."""
        subjects = self("GET", "/subjects?deleted=true")
        return [self("GET", "/schemas?deleted=true"), self("GET", "/config"), self("GET", "/mode"), subjects]


@pytest.fixture
def client() -> Any:
    return Client()


def test_a_schema_has_one_id_everywhere_and_a_version_in_each_subject(client: Client) -> None:
    answer = client("POST", "/subjects/a/versions", schema=INT)
    assert (answer["id"], answer["version"], answer["schemaType"]) == (1, 1, "AVRO")
    assert client.register("a", json.dumps(json.loads(INT), indent=3)) == 1
    assert client.register("a", WITH_DEFAULT) == 2
    assert client.register("b", WITH_DEFAULT) == 2
    assert client("GET", "/subjects") == ["a", "b"]
    assert client("GET", "/subjects/a/versions") == [1, 2]
    assert client("GET", "/schemas/ids/2/versions") == [{"subject": "a", "version": 2}, {"subject": "b", "version": 1}]
    assert client("GET", "/schemas/ids/2/subjects") == ["a", "b"]
    assert client("GET", "/schemas/ids/2?subject=b")["schema"] == WITH_DEFAULT
    guid = client("GET", "/schemas/ids/1")["guid"]
    assert client("GET", f"/schemas/guids/{guid}")["schema"] == INT
    assert client("GET", "/schemas/ids/1/schema") == PlainText(INT)
    assert client("GET", "/subjects/a/versions/latest")["version"] == client("GET", "/subjects/a/versions/-1")["version"] == 2
    assert client("GET", "/subjects/a/versions/2/schema") == WITH_DEFAULT
    assert client("GET", "/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert client("GET", "/subjects?subjectPrefix=b") == ["b"]
    assert client("GET", "/subjects?offset=1&limit=1") == ["b"]
    assert [each["version"] for each in client("GET", "/schemas?latestOnly=true")] == [2, 1]


def test_the_topic_has_confluents_keys_and_values_and_is_all_that_a_registry_needs(client: Client) -> None:
    client.register("line", LINE)
    client.register("order", ORDER, references=REFERENCES)
    client.register("json", "{}", schemaType="JSON", metadata={"properties": {"owner": "me"}})
    client("PUT", "/config/line", compatibility="full")
    client("PUT", "/mode/json", mode="READONLY")
    client("DELETE", "/subjects/order")
    keys = [json.loads(key) for key, _ in client.topic.records]
    assert keys[0] == {"keytype": "SCHEMA", "subject": "line", "version": 1, "magic": 1}
    assert keys[3:] == [
        {"keytype": "CONFIG", "subject": "line", "magic": 0},
        {"keytype": "MODE", "subject": "json", "magic": 0},
        {"keytype": "DELETE_SUBJECT", "subject": "order", "magic": 0},
    ]
    assert json.loads(client.topic.records[1][1]) == {
        "subject": "order",
        "version": 1,
        "id": 2,
        "references": REFERENCES,
        "schema": ORDER,
        "deleted": False,
    }
    assert json.loads(client.topic.records[3][1]) == {"subject": "line", "compatibilityLevel": "FULL"}
    other = Client(client.topic)
    assert other.known() == client.known()
    assert other("GET", "/config/line") == {"compatibilityLevel": "FULL"}
    other.register("line", '{"type":"record","name":"Line","fields":[{"name":"n","type":"int","default":0}]}')
    assert client.known() == other.known()
    before = client.known()
    client.topic.replace(client.topic.records[:1])
    assert client("GET", "/subjects") == ["line"]
    assert client.known() != before


def test_records_of_others_in_the_topic_are_skipped() -> None:
    topic = MemoryTopic()
    garbage = [
        (b"\xff", b"x"),
        (None, b"{}"),
        (b"[]", b"[]"),
        (b'{"keytype":"SCHEMA"}', b"{}"),
        (b'{"keytype":"NOOP","magic":0}', None),
    ]
    topic.replace([*garbage, (b'{"keytype":"CONFIG","subject":"s","magic":0}', b"7")])
    assert Client(topic).register("a", INT) == 1


@pytest.mark.parametrize(
    ("level", "schema", "is_refused"),
    [
        ("NONE", '"string"', False),
        ("BACKWARD", WITH_DEFAULT, False),
        ("BACKWARD", WITHOUT_DEFAULT, True),
        ("FORWARD", WITHOUT_DEFAULT, False),
        ("FORWARD", '{"type":"record","name":"R","fields":[]}', True),
        ("FULL", WITH_DEFAULT, False),
        ("FULL", WITHOUT_DEFAULT, True),
    ],
)
def test_a_level_decides_which_schemas_may_follow(client: Client, level: str, schema: str, is_refused: bool) -> None:
    client.register("a", INT)
    client("PUT", "/config/a", compatibility=level)
    verdict = client("POST", "/compatibility/subjects/a/versions?verbose=true", schema=schema)
    assert verdict["is_compatible"] is not is_refused
    assert bool(verdict["messages"]) is is_refused
    if is_refused:
        assert "incompatible with an earlier schema" in client.fails(409, "POST", "/subjects/a/versions", schema=schema)
    else:
        assert client.register("a", schema) == 2


@pytest.mark.parametrize(("level", "is_refused"), [("BACKWARD", False), ("BACKWARD_TRANSITIVE", True), ("FULL_TRANSITIVE", True)])
def test_a_transitive_level_counts_all_versions(client: Client, level: str, is_refused: bool) -> None:
    client("PUT", "/config", compatibility="NONE")
    client.register("a", '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}')
    client.register("a", INT)
    client("PUT", "/config", compatibility=level)
    assert client("POST", "/compatibility/subjects/a/versions", schema=WITH_DEFAULT) == {"is_compatible": not is_refused}
    assert client("POST", "/compatibility/subjects/a/versions/1", schema=WITH_DEFAULT) == {"is_compatible": False}
    assert client("POST", "/compatibility/subjects/a/versions/latest", schema=WITH_DEFAULT) == {"is_compatible": True}


def test_versions_of_another_compatibility_group_do_not_count(client: Client) -> None:
    client("PUT", "/config/a", compatibility="BACKWARD", compatibilityGroup="major")
    client.register("a", INT, metadata={"properties": {"major": "1"}})
    client.fails(409, "POST", "/subjects/a/versions", schema='"string"', metadata={"properties": {"major": "1"}})
    assert client.register("a", '"string"', metadata={"properties": {"major": "2"}}) == 2


def test_another_format_is_incompatible(client: Client) -> None:
    client.register("a", INT)
    assert "different schema type" in client.fails(409, "POST", "/subjects/a/versions", schema="{}", schemaType="JSON")


def test_deletion_is_soft_first_and_ids_stay(client: Client) -> None:
    client.register("a", INT)
    client.register("a", WITH_DEFAULT)
    client.fails(40407, "DELETE", "/subjects/a/versions/1?permanent=true")
    assert client("DELETE", "/subjects/a/versions/1") == 1
    client.fails(40406, "DELETE", "/subjects/a/versions/1")
    client.fails(40402, "GET", "/subjects/a/versions/1")
    assert client("GET", "/subjects/a/versions/1?deleted=true")["deleted"] is True
    assert client("GET", "/subjects/a/versions?deleted=true") == [1, 2]
    assert client("GET", "/subjects/a/versions?deletedOnly=true") == [1]
    assert client("GET", "/schemas/ids/1")["schema"] == INT
    client.fails(40403, "POST", "/subjects/a", schema=INT)
    assert client("POST", "/subjects/a?deleted=true", schema=INT)["version"] == 1
    assert client("DELETE", "/subjects/a/versions/latest") == 2
    client.fails(40401, "GET", "/subjects/a/versions")
    client.fails(40404, "DELETE", "/subjects/a")
    assert client("GET", "/subjects") == []
    assert client("GET", "/subjects?deleted=true") == ["a"]
    assert client("DELETE", "/subjects/a?permanent=true") == [1, 2]
    client.fails(40403, "GET", "/schemas/ids/1")
    client.fails(40401, "DELETE", "/subjects/a")
    assert client.register("a", INT) == 3


def test_a_subject_that_is_not_deleted_cannot_go_forever(client: Client) -> None:
    client.register("a", INT)
    client.fails(40405, "DELETE", "/subjects/a?permanent=true")
    assert client("DELETE", "/subjects/a") == [1]
    assert client.register("a", INT) == 1
    assert client("GET", "/subjects/a/versions?deleted=true") == [2]


def test_references_are_resolved_and_protect_what_they_need(client: Client) -> None:
    client.register("line", LINE)
    assert client.register("order", ORDER, references=REFERENCES) == 2
    assert client("GET", "/subjects/line/versions/1/referencedby") == [2]
    client.fails(42206, "DELETE", "/subjects/line")
    client.fails(42206, "DELETE", "/subjects/line/versions/1")
    resolved = client("GET", "/schemas/ids/2?format=resolved")["schema"]
    assert client("POST", "/subjects/order", schema=resolved)["version"] == 1
    assert client.register("order", resolved) == 2
    assert "No schema reference found" in client.fails(
        42201, "POST", "/subjects/x/versions", schema=ORDER, references=[{**REFERENCES[0], "version": 9}]
    )
    client("DELETE", "/subjects/order")
    assert client("DELETE", "/subjects/line") == [1]
    client.fails(42206, "DELETE", "/subjects/line?permanent=true")
    assert client("GET", "/subjects/line/versions/1/referencedby?deleted=true") == [2]


def test_modes(client: Client) -> None:
    assert client("GET", "/mode") == {"mode": "READWRITE"}
    client.fails(40409, "GET", "/mode/a")
    assert client("GET", "/mode/a?defaultToGlobal=true") == {"mode": "READWRITE"}
    client.register("a", INT)
    assert client("PUT", "/mode/a", mode="readonly") == {"mode": "READONLY"}
    client.fails(42205, "POST", "/subjects/a/versions", schema=WITH_DEFAULT)
    client.fails(42205, "DELETE", "/subjects/a")
    client.fails(42204, "PUT", "/mode", mode="nope")
    client.fails(42204, "PUT", "/mode/a", mode="FORWARD")
    assert client("DELETE", "/mode/a") == {"mode": "READONLY"}
    client.fails(40401, "DELETE", "/mode/a")
    client.fails(42205, "POST", "/subjects/a/versions", schema=WITH_DEFAULT, id=7)
    client.fails(42205, "PUT", "/mode", mode="IMPORT")
    client("PUT", "/mode/b", mode="IMPORT")
    assert client.register("b", WITH_DEFAULT, id=70, version=5) == 70
    client.fails(42205, "POST", "/subjects/b/versions", schema='"int"', id=70)
    client.fails(42205, "POST", "/subjects/b/versions", schema='"int"')
    client("DELETE", "/mode/b")
    assert client("GET", "/subjects/b/versions") == [5]
    client("PUT", "/config/b", compatibility="NONE")
    assert client.register("b", '"int"') == 71
    client("PUT", "/mode", mode="READONLY_OVERRIDE")
    client("PUT", "/mode/a", mode="READWRITE")
    client.fails(42205, "POST", "/subjects/a/versions", schema=WITH_DEFAULT)


def test_import_forgets_deleted_versions(client: Client) -> None:
    client.register("a", INT)
    client("DELETE", "/subjects/a")
    assert client("PUT", "/mode/a", mode="IMPORT") == {"mode": "IMPORT"}
    assert client("GET", "/subjects?deleted=true") == []
    assert client.register("a", INT, id=1, version=1) == 1


def test_settings(client: Client) -> None:
    assert client("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    client.fails(40408, "GET", "/config/a")
    client.fails(40401, "DELETE", "/config/a")
    client.fails(42203, "PUT", "/config", compatibility="sideways")
    client.fails(501, "PUT", "/config", validateRules=True)
    assert client("PUT", "/config/a", compatibility="forward", normalize=True) == {"compatibility": "FORWARD", "normalize": True}
    assert client("PUT", "/config", compatibility="FULL") == {"compatibility": "FULL"}
    assert client("GET", "/config/a?defaultToGlobal=true")["compatibilityLevel"] == "FORWARD"
    assert client("GET", "/config/b?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}
    assert client("DELETE", "/config/a")["compatibilityLevel"] == "FORWARD"
    assert client("DELETE", "/config") == {"compatibilityLevel": "FULL"}
    assert client("GET", "/config") == {"compatibilityLevel": "BACKWARD"}


def test_an_alias_stands_for_another_subject(client: Client) -> None:
    client.register("a", INT)
    client("PUT", "/config/other", alias="a")
    assert client("GET", "/subjects/other/versions/latest")["subject"] == "a"


def test_normalize_makes_one_schema_of_two_texts(client: Client) -> None:
    one, other = '{"type":"object","title":"t"}', '{"title":"t","type":"object"}'
    client("PUT", "/config", compatibility="NONE")
    assert client.register("a", one, schemaType="JSON") != client.register("a", other, schemaType="JSON")
    client("PUT", "/config/b", compatibility="NONE", normalize=True)
    assert client.register("b", one, schemaType="JSON") == client.register("b", other, schemaType="JSON")
    assert client("POST", "/subjects/b?normalize=true", schema=one, schemaType="JSON")["version"] == 1


def test_metadata_is_inherited_completed_and_searched(client: Client) -> None:
    client(
        "PUT",
        "/config/a",
        defaultMetadata={"properties": {"team": "x", "tier": "1"}},
        overrideMetadata={"properties": {"tier": "2"}},
    )
    client.register("a", INT, metadata={"properties": {"owner": "me"}})
    found = client("GET", "/subjects/a/versions/1")["metadata"]["properties"]
    assert found == {"team": "x", "tier": "2", "owner": "me"}
    client.register("a", WITH_DEFAULT)
    assert client("GET", "/subjects/a/metadata?key=owner&value=me")["version"] == 2
    client.fails(40403, "GET", "/subjects/a/metadata?key=owner&value=you")
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "true"}]}
    client.register("a", "", ruleSet=rules)
    assert client("GET", "/subjects/a/versions/3")["ruleSet"] == rules
    assert client("GET", "/subjects/a/versions/3")["schema"] == WITH_DEFAULT


def test_each_context_numbers_its_schemas_itself(client: Client) -> None:
    client.register("a", INT)
    client.register("a", WITH_DEFAULT)
    assert client.register(":.dev:a", WITH_DEFAULT) == 1
    assert client("POST", "/contexts/.dev/subjects/b/versions", schema='"string"')["id"] == 2
    assert client("GET", "/contexts") == [".", ".dev"]
    assert client("GET", "/subjects") == [":.dev:a", ":.dev:b", "a"]
    assert client("GET", "/subjects?subjectPrefix=:.dev:") == client("GET", "/contexts/.dev/subjects") == [":.dev:a", ":.dev:b"]
    assert client("GET", "/contexts/.dev/schemas/ids/1")["schema"] == WITH_DEFAULT
    assert client("GET", "/schemas/ids/1")["schema"] == INT
    client("PUT", "/contexts/.dev/config", compatibility="NONE")
    assert client("GET", "/config/:.dev:b?defaultToGlobal=true")["compatibilityLevel"] == "NONE"
    assert client("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert client("GET", "/subjects/b/versions/1")["subject"] == ":.dev:b"


@pytest.mark.parametrize(
    ("code", "method", "uri", "body"),
    [
        (404, "GET", "/nope", {}),
        (405, "PUT", "/subjects", {}),
        (404, "GET", "/schemas/ids/x", {}),
        (40403, "GET", "/schemas/ids/9", {}),
        (40403, "GET", "/schemas/guids/9", {}),
        (40401, "GET", "/subjects/a/versions", {}),
        (40401, "GET", "/subjects/a/versions/1", {}),
        (42202, "GET", "/subjects/a/versions/0", {}),
        (42202, "GET", "/subjects/a/versions/x", {}),
        (42202, "GET", "/subjects/a/versions/99999999999", {}),
        (40401, "POST", "/subjects/a", {"schema": INT}),
        (422, "POST", "/subjects/a/versions", {}),
        (422, "POST", "/subjects/a/versions", {"schema": 7}),
        (422, "POST", "/subjects/a/versions", {"schema": INT, "references": [7]}),
        (42201, "POST", "/subjects/a/versions", {"schema": ""}),
        (42201, "POST", "/subjects/a/versions", {"schema": "{"}),
        (42201, "POST", "/subjects/a/versions", {"schema": INT, "schemaType": "XML"}),
        (42201, "POST", "/subjects/a/versions", {"schema": INT, "version": 3}),
        (501, "POST", "/subjects/a/versions", {"schema": INT, "propagateSchemaTags": True}),
        (42208, "POST", "/subjects/%00/versions", {"schema": INT}),
        (42208, "PUT", "/config/%20", {"compatibility": "NONE"}),
        (40402, "POST", "/compatibility/subjects/a/versions/3", {"schema": INT}),
        (40401, "GET", "/subjects/a/metadata", {}),
        (404, "GET", "/subjects?offset=x", {}),
    ],
)
def test_errors_have_confluents_codes(client: Client, code: int, method: str, uri: str, body: Any) -> None:
    assert "\n" not in client.fails(code, method, uri, **body)
    assert client.topic.records == []


def test_a_body_of_another_type_is_refused() -> None:
    with pytest.raises(RegistryError, match="415"):
        read_body(b"{}", "text/html")
    with pytest.raises(RegistryError, match="no JSON"):
        read_body(b"{", "application/vnd.schemaregistry.v1+json; q=1")
    assert read_body(b"", "text/html") is None
