"""The tools that change something. Without ``confirm`` they only show what would change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from twisted_kafka.console.actions.acls import OPERATIONS, PATTERNS, PERMISSIONS, RESOURCES, AddAcl, DeleteAcl, entry
from twisted_kafka.console.actions.offsets import DeleteGroup, ResetOffsets
from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.actions.quotas import DEFAULT_NAME, KEYS, SetQuota
from twisted_kafka.console.actions.records import Produce, ResendDeadLetter
from twisted_kafka.console.actions.settings import AlterSettings
from twisted_kafka.console.actions.topics import DEFAULT, AddPartitions, CreateTopic, DeleteTopic
from twisted_kafka.console.actions.transactions import AbortTransaction
from twisted_kafka.console.actions.users import MECHANISMS, MOST_CHARACTERS, USUAL_MECHANISM, DeleteUser, SetPassword
from twisted_kafka.console.cluster.record_forms import FORMS
from twisted_kafka.console.queries.access import Acl
from twisted_kafka.console.queries.settings import TYPES
from twisted_kafka.tools.agent.tool import Argument, Context, Tool

_CONFIRM: Final = Argument(
    "confirm", "boolean", "true changes it; otherwise the answer is a preview, to be shown to the user first", default=False
)
_TOPIC: Final = Argument("topic", "string", "the topic's name", is_required=True)
_GROUP: Final = Argument("group", "string", "the group's id", is_required=True)

_Action = (
    AbortTransaction
    | AddAcl
    | AddPartitions
    | AlterSettings
    | CreateTopic
    | DeleteAcl
    | DeleteGroup
    | DeleteTopic
    | DeleteUser
    | Produce
    | ResendDeadLetter
    | ResetOffsets
    | SetPassword
    | SetQuota
)


def _tool(
    name: str,
    description: str,
    arguments: tuple[Argument, ...],
    make: Callable[[dict[str, Any]], _Action],
    *,
    destroys: bool = False,
) -> Tool:
    def call(context: Context, given: dict[str, Any]) -> Any:
        action = make(given)
        if given["confirm"]:
            return {"done": action.do(context.session)}
        preview: Preview = action.preview(context.session)
        return {"nothing_has_changed": "this is a preview: call again with confirm=true", "preview": preview}

    return Tool(name, description, (*arguments, _CONFIRM), call, writes=True, destroys=destroys)


def _pairs(given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(value)) for key, value in given.items())


def _password(path: str) -> str:
    """Return the first line of a file: an agent names the file, and does not see the password."""
    with Path(path).open(encoding="utf-8") as file:
        return file.readline(4 * MOST_CHARACTERS).rstrip("\r\n")


def _acl(given: dict[str, Any]) -> Acl:
    where = {name: given[name] for name in ("host", "pattern_type", "permission")}
    return entry(given["resource_type"], given["name"], given["principal"], given["operation"], **where)


def _quota(given: dict[str, Any]) -> SetQuota:
    if (given["value"] is None) != given["remove"]:
        raise ValueError("either a value or remove=true is needed")
    return SetQuota(given["key"], given["value"], given["user"], given["client_id"], given["ip"])


_USER: Final = Argument("user", "string", "the user's name", is_required=True)
_ACL: Final = (
    Argument("resource_type", "string", "what the entry is about", is_required=True, choices=tuple(RESOURCES)),
    Argument("name", "string", "the resource's name, * for all; empty for the cluster", ""),
    Argument("principal", "string", "User:alice; User:* for all", is_required=True),
    Argument("operation", "string", "the operation", is_required=True, choices=tuple(OPERATIONS)),
    Argument("permission", "string", "whether the entry allows or denies", "Allow", choices=tuple(PERMISSIONS)),
    Argument("pattern_type", "string", "whether the name is the whole name or its beginning", "Literal", choices=tuple(PATTERNS)),
    Argument("host", "string", "an address or a network of clients", "*"),
)

WRITING: Final = (
    _tool(
        "create_topic",
        "Create a topic.",
        (
            _TOPIC,
            Argument("partitions", "integer", "the number of partitions; -1: the broker's default", DEFAULT),
            Argument("replication_factor", "integer", "replicas of each partition; -1: the broker's default", DEFAULT),
            Argument("settings", "object", "such as retention.ms", {}),
        ),
        lambda given: CreateTopic(given["topic"], given["partitions"], given["replication_factor"], _pairs(given["settings"])),
    ),
    _tool(
        "add_partitions",
        "Give a topic more partitions. Keys may move to other partitions.",
        (_TOPIC, Argument("count", "integer", "the new number of partitions", is_required=True)),
        lambda given: AddPartitions(given["topic"], given["count"]),
    ),
    _tool("delete_topic", "Delete a topic with its records.", (_TOPIC,), lambda given: DeleteTopic(given["topic"]), destroys=True),
    _tool(
        "alter_settings",
        "Change settings of a topic, broker, group, ...",
        (
            Argument("kind", "string", "the type of the resource", "topic", choices=tuple(TYPES)),
            Argument("name", "string", "the topic, the broker's id, the group, ...", is_required=True),
            Argument("set", "object", "keys with their new values", {}),
            Argument("delete", "array", "keys that get their defaults again", []),
        ),
        lambda given: AlterSettings(given["kind"], given["name"], _pairs(given["set"]), tuple(map(str, given["delete"]))),
        destroys=True,
    ),
    _tool(
        "produce_message",
        "Write one record.",
        (
            _TOPIC,
            Argument("key", "string", "the key; without it, the record has none"),
            Argument("value", "string", "the value; without it, it is null"),
            Argument("headers", "object", "names and values", {}),
            Argument("partition", "integer", "the partition; without it, the key decides"),
            Argument("form", "string", "of key and value", "text", choices=FORMS),
        ),
        lambda given: Produce(
            given["topic"], given["key"], given["value"], _pairs(given["headers"]), given["partition"], given["form"]
        ),
    ),
    _tool(
        "resend_dead_letter",
        "Write a dead letter to the topic that it came from.",
        (
            _TOPIC,
            Argument("partition", "integer", "its partition", is_required=True),
            Argument("offset", "integer", "its offset", is_required=True),
            Argument("target", "string", "another topic than the one that it names", ""),
        ),
        lambda given: ResendDeadLetter(given["topic"], given["partition"], given["offset"], given["target"]),
    ),
    _tool(
        "reset_offsets",
        "Set the committed offsets of a group without members: to a position, or by adding a number.",
        (
            _GROUP,
            Argument("topics", "array", "TOPIC or TOPIC:PARTITION,...; empty: all that it has offsets of", []),
            Argument("to", "string", "earliest, latest, an offset, -N, or a time", ""),
            Argument("shift", "integer", "a number to add instead"),
        ),
        lambda given: ResetOffsets(given["group"], tuple(map(str, given["topics"])), given["to"], given["shift"]),
        destroys=True,
    ),
    _tool(
        "delete_group",
        "Delete a group without members, with its offsets.",
        (_GROUP,),
        lambda given: DeleteGroup(given["group"]),
        destroys=True,
    ),
    _tool(
        "abort_transaction",
        "Abort a hanging transaction of a partition, as hanging_transactions lists them.",
        (
            _TOPIC,
            Argument("partition", "integer", "the partition", is_required=True),
            Argument("start_offset", "integer", "the transaction's first offset", is_required=True),
        ),
        lambda given: AbortTransaction(given["topic"], given["partition"], given["start_offset"]),
        destroys=True,
    ),
    _tool(
        "set_password",
        "Create a user with a SCRAM password, or change the password. The password comes from a file.",
        (
            _USER,
            Argument("password_file", "string", "a file on this machine; its first line is the password", is_required=True),
            Argument("mechanism", "string", "the mechanism of the login", USUAL_MECHANISM, choices=tuple(MECHANISMS)),
        ),
        lambda given: SetPassword(given["user"], _password(given["password_file"]), given["mechanism"]),
        destroys=True,
    ),
    _tool("delete_user", "Delete all SCRAM passwords of a user.", (_USER,), lambda given: DeleteUser(given["user"]), destroys=True),
    _tool("add_acl", "Add an access control entry.", _ACL, lambda given: AddAcl(_acl(given)), destroys=True),
    _tool("delete_acl", "Delete one access control entry.", _ACL, lambda given: DeleteAcl(_acl(given)), destroys=True),
    _tool(
        "set_quota",
        f"Set or remove a quota. {DEFAULT_NAME} as a name: the quota of those without one of their own.",
        (
            Argument("key", "string", "the quota", is_required=True, choices=KEYS),
            Argument("value", "number", "bytes, mutations or connections each second, or percent of a thread's time"),
            Argument("remove", "boolean", "remove it instead", default=False),
            Argument("user", "string", "a user; empty: any", ""),
            Argument("client_id", "string", "a client id; empty: any", ""),
            Argument("ip", "string", "an address, for connection_creation_rate alone", ""),
        ),
        _quota,
        destroys=True,
    ),
)
