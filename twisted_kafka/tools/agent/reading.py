"""The tools that change nothing."""

from typing import Any, Final

from twisted_kafka.console.cluster.groups import KINDS
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.queries.access import acls, may, quotas, users
from twisted_kafka.console.queries.cluster import cluster
from twisted_kafka.console.queries.directories import directories
from twisted_kafka.console.queries.findings import findings
from twisted_kafka.console.queries.groups import group, groups
from twisted_kafka.console.queries.logged import LogFilter, logged
from twisted_kafka.console.queries.overview import overview
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.queries.records.conditions import FORM
from twisted_kafka.console.queries.records.messages import MessagesAsked, message, messages
from twisted_kafka.console.queries.records.values import FORMS
from twisted_kafka.console.queries.settings import TYPES, settings
from twisted_kafka.console.queries.topics.topic import topic
from twisted_kafka.console.queries.topics.topics import topics
from twisted_kafka.console.queries.transactions import OLD_MINUTES, hanging, transaction, transactions
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.tools.agent.tool import Argument, Context, Tool

_SEARCH: Final = Argument("search", "string", "only rows with this text in their name", "")
_PAGE: Final = Argument("page", "integer", "from 1; the result has the total", 1)
_SIZE: Final = Argument("page_size", "integer", "rows of a page, at most 500", 50)
_TOPIC: Final = Argument("topic", "string", "the topic's name", is_required=True)
_GROUP: Final = Argument("group", "string", "the group's id", is_required=True)
_POSITION: Final = "earliest, latest, an offset, -N (N records before the end), or a time such as 2026-11-27T06:00:00Z or 15m (ago)"


def _sort(*columns: str) -> Argument:
    return Argument("sort", "string", f"{', '.join(columns)}; with - before it, the largest first", columns[0])


def _asked(given: dict[str, Any]) -> Asked:
    return Asked(given["search"], given.get("sort", "name"), given["page"], given["page_size"])


def _list_topics(context: Context, given: dict[str, Any]) -> Any:
    return topics(context.session, _asked(given), with_internal=given["internal"])


def _describe_topic(context: Context, given: dict[str, Any]) -> Any:
    found = topic(context.session, given["topic"])
    # The documentation of some thirty keys is in describe_settings.
    changed = {each.key: each.value for each in found.settings if not each.is_default}
    return {
        "shape": found.shape,
        "topic_id": found.topic_id,
        "records": found.records,
        "size_bytes": found.size_bytes,
        "changed_settings": changed,
        "groups": found.groups,
        "partitions": found.partitions,
        "stopped": found.stopped,
    }


def _find_messages(context: Context, given: dict[str, Any]) -> Any:
    asked = MessagesAsked(
        given["topic"],
        tuple(int(each) for each in given["partitions"]),
        given["start"],
        given["cursor"],
        given["count"],
        given["key"],
        given["search"],
        tuple(map(str, given["where"])),
        given["form"],
        given["schema"],
    )
    return messages(context.session, context.clock, asked)


def _get_message(context: Context, given: dict[str, Any]) -> Any:
    return message(context.session, given["topic"], given["partition"], given["offset"], given["form"])


def _list_groups(context: Context, given: dict[str, Any]) -> Any:
    kinds = (given["kind"],) if given["kind"] else ()
    return groups(context.session, _asked(given), kinds=kinds, states=tuple(map(str, given["states"])))


def _hanging(context: Context, given: dict[str, Any]) -> Any:
    before_ms = context.clock.wall_ms() - given["older_than_minutes"] * 60_000
    return hanging(context.session, tuple(map(str, given["topics"])), before_ms)


def _may(context: Context, given: dict[str, Any]) -> Any:
    operation = AclOperation[_code(given["operation"], _OPERATIONS)]
    resource = ResourceType[_code(given["resource_type"], _RESOURCES)], given["resource"]
    return may(context.session, given["principal"], operation, resource, given["host"])


def _code(text: str, known: tuple[str, ...]) -> str:
    wanted = text.replace("-", "_").replace(" ", "_").upper()
    if wanted not in known:
        raise ValueError(f"{text!r} is not known: choose one of {', '.join(known)}")
    return wanted


_OPERATIONS: Final = tuple(each.name for each in AclOperation if each.value > AclOperation.ALL)
_RESOURCES: Final = tuple(each.name for each in ResourceType if each.value > ResourceType.ANY)


def _settings(context: Context, given: dict[str, Any]) -> Any:
    found = settings(context.session, given["kind"], given["name"])
    return [each for each in found if given["key"] in each.key and (given["all"] or given["key"] or not each.is_default)]


def _requests(context: Context, given: dict[str, Any]) -> Any:
    if context.access_log is None:
        raise CommandError(
            "there is no access log here: start twisted-kafka mcp with --access-log DIR, this broker's access.log.dir"
        )
    names = ("api", "principal", "client", "topic", "only_errors", "slower_ms", "before")
    return logged(context.access_log, context.clock, LogFilter(**{name: given[name] for name in names}), given["count"])


READING: Final = (
    Tool(
        "cluster_overview", "The cluster's brokers, and its numbers of topics and partitions.", (), lambda c, _: overview(c.session)
    ),
    Tool(
        "cluster_health",
        "What is wrong with the cluster, the worst first, with advice: partitions without a leader, brokers that are missing, "
        "rebalancing groups, full disks, transactions that are open for long. Begin here.",
        (),
        lambda c, _: findings(c.session),
    ),
    Tool(
        "cluster_state",
        "Each broker's number of leaders and replicas, partitions that are not well, and running reassignments.",
        (),
        lambda c, _: cluster(c.session),
    ),
    Tool(
        "list_topics",
        "Topics with their partitions, records and sizes.",
        (
            _SEARCH,
            _sort("name", "partitions", "replication_factor", "problems", "size_bytes"),
            _PAGE,
            _SIZE,
            Argument("internal", "boolean", "also internal topics", default=False),
        ),
        _list_topics,
    ),
    Tool(
        "describe_topic",
        "A topic's partitions with leaders and offsets, its changed settings, and the groups that read it with their lag.",
        (_TOPIC,),
        _describe_topic,
    ),
    Tool(
        "find_messages",
        "Records of a topic, the newest first unless start is a position, with filters. Reads at most 10,000 records, 16 MB "
        "or 5 s; `stopped` says if it ended early, and `following` is the cursor to go on with.",
        (
            _TOPIC,
            Argument("partitions", "array", "only these partitions", []),
            Argument("start", "string", f"newest, or a position: {_POSITION}", "newest"),
            Argument("cursor", "string", "`following` of an earlier answer with the same arguments", ""),
            Argument("count", "integer", "records to return, at most 500", 20),
            Argument("key", "string", "only records with exactly this key; 0x begins one in hexadecimal"),
            Argument("search", "string", "only records with this text in key, value or headers", ""),
            Argument("where", "array", f"conditions that all hold: {FORM}; operators = != > < >= <= ~ !~", []),
            Argument(
                "form", "string", "how to show values; auto decodes Avro and Protobuf of a schema registry", "auto", choices=FORMS
            ),
            Argument("schema", "string", "the text of an Avro schema, or of a .proto file, for values that no registry has", ""),
        ),
        _find_messages,
    ),
    Tool(
        "get_message",
        "One record with its whole value.",
        (
            _TOPIC,
            Argument("partition", "integer", "its partition", is_required=True),
            Argument("offset", "integer", "its offset", is_required=True),
            Argument("form", "string", "how to show the value", "auto", choices=FORMS),
        ),
        _get_message,
    ),
    Tool(
        "list_groups",
        "Groups of all kinds with state, number of members and lag.",
        (
            _SEARCH,
            _sort("name", "kind", "state"),
            _PAGE,
            _SIZE,
            Argument("kind", "string", "only this kind", "", choices=("", *KINDS)),
            Argument("states", "array", "only groups in these states, such as Stable, Empty, PreparingRebalance", []),
        ),
        _list_groups,
    ),
    Tool(
        "describe_group",
        "A group's members with their partitions, and committed offset, end offset and lag of each partition.",
        (_GROUP,),
        lambda c, given: group(c.session, given["group"]),
    ),
    Tool(
        "list_transactions",
        "Transactional ids with their states.",
        (_SEARCH, _sort("name", "state", "producer_id"), _PAGE, _SIZE, Argument("states", "array", "such as Ongoing", [])),
        lambda c, given: transactions(c.session, _asked(given), states=tuple(map(str, given["states"]))),
    ),
    Tool(
        "describe_transaction",
        "A transactional id's state, producer and partitions.",
        (Argument("transactional_id", "string", "the id", is_required=True),),
        lambda c, given: transaction(c.session, given["transactional_id"]),
    ),
    Tool(
        "hanging_transactions",
        "Open transactions that no coordinator will end; consumers with read_committed wait for them.",
        (
            Argument("topics", "array", "only these topics", []),
            Argument("older_than_minutes", "number", "without a record for longer", OLD_MINUTES),
        ),
        _hanging,
    ),
    Tool(
        "may_user",
        "Whether a user may do something, and the entry or setting that decides: may User:alice READ topic payments, and why?",
        (
            Argument("principal", "string", "User:NAME", is_required=True),
            Argument("operation", "string", ", ".join(_OPERATIONS), is_required=True),
            Argument("resource_type", "string", ", ".join(_RESOURCES), "TOPIC"),
            Argument("resource", "string", "the resource's name", is_required=True),
            Argument("host", "string", "the client's IP address", ""),
        ),
        _may,
    ),
    Tool(
        "list_acls",
        "Access control entries.",
        (_SEARCH, _sort("name", "principal"), _PAGE, _SIZE, Argument("principal", "string", "only entries of User:NAME")),
        lambda c, given: acls(c.session, _asked(given), principal=given["principal"]),
    ),
    Tool("list_users", "Users with SCRAM credentials.", (_SEARCH, _PAGE, _SIZE), lambda c, given: users(c.session, _asked(given))),
    Tool(
        "list_quotas",
        "Quotas of users, clients and addresses.",
        (_SEARCH, _sort("name", "value"), _PAGE, _SIZE),
        lambda c, given: quotas(c.session, _asked(given)),
    ),
    Tool(
        "describe_settings",
        "Settings with value, source and documentation; without all or a key, only those that differ from their defaults.",
        (
            Argument("kind", "string", "the type of the resource", "topic", choices=tuple(TYPES)),
            Argument("name", "string", "the topic, the broker's id, the group, ...", is_required=True),
            Argument("key", "string", "only keys with this text", ""),
            Argument("all", "boolean", "also defaults", default=False),
        ),
        _settings,
    ),
    Tool(
        "log_directories", "The log directories of all brokers, with sizes and free space.", (), lambda c, _: directories(c.session)
    ),
    Tool(
        "find_requests",
        "Requests of clients in this broker's access log, the latest first: who deleted a topic (api DeleteTopics), who is refused "
        "(only_errors), what is slow. Needs --access-log.",
        (
            Argument("api", "string", "the API's name, such as Produce or DeleteTopics", ""),
            Argument("principal", "string", "a part of the principal", ""),
            Argument("client", "string", "a part of the client id or the client's software", ""),
            Argument("topic", "string", "a part of a topic, group or other resource", ""),
            Argument("only_errors", "boolean", "only requests with an error", default=False),
            Argument("slower_ms", "number", "only requests that took at least this long", 0),
            Argument("before", "string", "only earlier ones: the time of the last line of an earlier answer", ""),
            Argument("count", "integer", "requests to return, at most 500", 20),
        ),
        _requests,
    ),
)
