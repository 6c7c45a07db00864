"""The tools that change something. Without ``confirm`` they only show what would change."""

from collections.abc import Callable
from typing import Any, Final

from twisted_kafka.console.actions.offsets import DeleteGroup, ResetOffsets
from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.actions.records import Produce, ResendDeadLetter
from twisted_kafka.console.actions.settings import AlterSettings
from twisted_kafka.console.actions.topics import DEFAULT, AddPartitions, CreateTopic, DeleteTopic
from twisted_kafka.console.actions.transactions import AbortTransaction
from twisted_kafka.console.cluster.record_forms import FORMS
from twisted_kafka.console.queries.settings import TYPES
from twisted_kafka.tools.agent.tool import Argument, Context, Tool

_CONFIRM: Final = Argument(
    "confirm", "boolean", "true changes it; otherwise the answer is a preview, to be shown to the user first", default=False
)
_TOPIC: Final = Argument("topic", "string", "the topic's name", is_required=True)
_GROUP: Final = Argument("group", "string", "the group's id", is_required=True)

_Action = (
    AbortTransaction
    | AddPartitions
    | AlterSettings
    | CreateTopic
    | DeleteGroup
    | DeleteTopic
    | Produce
    | ResendDeadLetter
    | ResetOffsets
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
)
