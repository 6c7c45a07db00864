"""Changes: a form, a preview of what will happen, and the change itself. All actions share these three steps."""

import re
from collections.abc import Callable, Container, Mapping
from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.console.actions.acls import OPERATIONS, RESOURCES, AddAcl, DeleteAcl, entry
from twisted_kafka.console.actions.offsets import DeleteGroup, ResetOffsets
from twisted_kafka.console.actions.quotas import DEFAULT_NAME, SetQuota
from twisted_kafka.console.actions.quotas import KEYS as QUOTAS
from twisted_kafka.console.actions.records import Produce, ResendDeadLetter
from twisted_kafka.console.actions.settings import HIDDEN, AlterSettings, may_be_secret
from twisted_kafka.console.actions.topics import DEFAULT, AddPartitions, CreateTopic, DeleteTopic
from twisted_kafka.console.actions.transactions import AbortTransaction
from twisted_kafka.console.actions.users import MECHANISMS, USUAL_MECHANISM, DeleteUser, SetPassword
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.queries.access import Acl
from twisted_kafka.console.queries.settings import TYPES
from twisted_kafka.console.web.call import BadFormError, Call, NotFoundError, Page, Redirect
from twisted_kafka.console.web.pages.lists import twice
from twisted_kafka.console.web.rendering import query_url
from twisted_kafka.security.scram.formulas import MIN_ITERATIONS
from twisted_kafka.system.client_text import bounded_text, printable

_log = Logger("kafka.console.audit")

Fields = Mapping[str, str]

_MOST_DIGITS: Final = 20

SECRET: Final = "secret"
"""The kind of a field that the form asks for after the preview, so that no page has its value. It has no value in an address."""


class Field(NamedTuple):
    """A field of a form."""

    name: str
    label: str
    kind: str = "text"
    """text, number, area, check or choice; fixed for a value that only the address sets; or ``SECRET``."""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    is_needed: bool = False


class Action(NamedTuple):
    """Something that a user may change."""

    title: str
    verb: str
    fields: tuple[Field, ...]
    make: Callable[[Fields], Any]
    """Returns the action for the fields of a form; raises ValueError."""
    back: Callable[[Fields], str]
    """Returns the page that shows the outcome."""
    is_dangerous: bool = False
    unlogged: Callable[[Fields], Container[str]] = lambda _: ()
    """Returns the fields whose values may be secret, so that no log has them."""


def show(call: Call) -> Page:
    """Show the form, and the preview if the address has all the fields."""
    return _shown(call, call.query)


def change(call: Call) -> Page | Redirect:
    """Show the preview of a form, or do what an earlier preview has shown. A change leaves a line in the audit log."""
    if call.form.get("step") != "do":
        return _shown(call, call.form)
    action = _action(call.form)
    _check(action, call.form)
    summary = bounded_text(printable(f"{call.form.get('action')} {_described(action, call.form)}"))
    who = {"user": printable(bounded_text(str(call.viewer.principal))), "address": call.viewer.address, "what": summary}
    try:
        done = action.make(call.form).do(call.session)
    except (CommandError, ValueError) as error:
        _log.warn("Console: {user} at {address} failed: {what}: {why}", why=printable(bounded_text(str(error))), **who)
        raise
    _log.info("Console: {user} at {address} changed: {what}", **who)
    return Redirect(action.back(call.form), f"{done[:1].upper()}{done[1:]}.")


def _shown(call: Call, given: Fields) -> Page:
    action = _action(given)
    preview, problem = None, ""
    is_complete = all(given.get(field.name) for field in action.fields if field.is_needed and field.kind != SECRET)
    is_complete = is_complete and given.get("step") != "edit"
    if call.context.settings.may_write and is_complete and (given.get("step") == "preview" or _is_certain(action)):
        try:
            _check(action, given, with_secrets=False)
            preview = action.make(given).preview(call.session)
        except (CommandError, ValueError) as error:
            problem = str(error)
    values = {"title": action.title, "action": action, "name": given["action"], "given": given, "preview": preview}
    return Page("change.html", {**values, "problem": problem, "back": action.back(given)}, 400 if problem else 200)


def _is_certain(action: Action) -> bool:
    """Whether nothing is left to enter."""
    return all(field.kind == "fixed" for field in action.fields)


def _action(given: Fields) -> Action:
    action = ACTIONS.get(given.get("action", ""))
    if action is None:
        raise NotFoundError
    return action


def _check(action: Action, given: Fields, *, with_secrets: bool = True) -> None:
    for field in action.fields:
        value = given.get(field.name, "")
        if field.is_needed and not value and (with_secrets or field.kind != SECRET):
            raise BadFormError(f"{field.label} is missing.")
        if field.kind == "number" and value.strip() and not re.fullmatch("-?[0-9]+", value.strip()):
            raise BadFormError(f"{field.label} has to be a number.")


def _described(action: Action, given: Fields) -> str:
    """Return the fields in one line, without the contents of records and without secrets."""
    unlogged = action.unlogged(given)
    return ", ".join(
        f"{field.name}={HIDDEN if field.name in unlogged else given[field.name]}"
        for field in action.fields
        if given.get(field.name) and field.kind not in ("area", SECRET)
    )


def _number(given: Fields, name: str, default: int | None = None) -> Any:
    text = given.get(name, "").strip()
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"{name} has {len(text)} digits: no number of Kafka has more than {_MOST_DIGITS}")
    return int(text) if text else default


def _pairs(text: str, separator: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of lines such as ``key=value``. Raises ValueError."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        key, mark, value = line.partition(separator)
        if not mark or not key.strip():
            raise ValueError(f"expected a line such as NAME{separator}VALUE, not {line[:80]!r}")
        found.append((key.strip(), value.strip()))
    return tuple(found)


def _create_topic(given: Fields) -> CreateTopic:
    partitions, replicas = _number(given, "partitions", DEFAULT), _number(given, "replicas", DEFAULT)
    return CreateTopic(given["topic"].strip(), partitions, replicas, _pairs(given.get("settings", ""), "="))


def _produce(given: Fields) -> Produce:
    value = None if given.get("null") else given.get("value", "").replace("\r\n", "\n")
    headers = _pairs(given.get("headers", ""), ":")
    return Produce(given["topic"], given.get("key") or None, value, headers, _number(given, "partition"), given.get("form", "text"))


def _alter(given: Fields) -> AlterSettings:
    key = given["key"].strip()
    if given.get("default"):
        return AlterSettings(given["kind"], given["name"], delete=(key,))
    return AlterSettings(given["kind"], given["name"], ((key, given.get("value", "").strip()),))


def _reset(given: Fields) -> ResetOffsets:
    topics = tuple(given.get("topics", "").split())
    shift = _number(given, "shift")
    if shift is not None:
        return ResetOffsets(given["group"], topics, shift=shift)
    to = given.get("to", "")
    return ResetOffsets(given["group"], topics, given.get("position", "").strip() if to == "at" else to)


def _setting_page(given: Fields) -> str:
    kind, name = given.get("kind", ""), given.get("name", "")
    return (
        query_url("/broker", {"id": name})
        if kind == "broker"
        else query_url("/topic" if kind == "topic" else "/group", {"name": name})
    )


def _topic_page(given: Fields) -> str:
    return query_url("/topic", {"name": given["topic"]}) if given.get("topic") else "/topics"


def _group_page(given: Fields) -> str:
    return query_url("/group", {"name": given["group"]}) if given.get("group") else "/groups"


def _letter(given: Fields) -> ResendDeadLetter:
    return ResendDeadLetter(given["topic"], _number(given, "partition"), _number(given, "offset"), given.get("target", "").strip())


def _set_password(given: Fields) -> SetPassword:
    mechanism, iterations = given.get("mechanism") or USUAL_MECHANISM, _number(given, "iterations", MIN_ITERATIONS)
    return SetPassword(given.get("user", "").strip(), given.get("password", ""), mechanism, iterations)


def _acl(given: Fields) -> Acl:
    def text(name: str) -> str:
        return given.get(name, "").strip()

    named = {name: text(name) for name in ("host", "pattern_type", "permission")}
    return entry(text("resource_type"), given.get("name", ""), text("principal"), text("operation"), **named)


def _quota(given: Fields) -> SetQuota:
    text = given.get("value", "").strip()
    try:
        value = None if given.get("remove") else float(text)
    except ValueError:
        raise ValueError(f"{text[:80]!r} is not a number" if text else "which value? Enter a number") from None
    return SetQuota(given["key"], value, *(given.get(name, "") for name in ("user", "client_id", "ip")))


_ACL: Final = (
    Field("principal", "User", hint="A name, User:* for all, or another type such as Group:admins", is_needed=True),
    Field("permission", "May or may not", "choice", choices=(("Allow", "may"), ("Deny", "may not"))),
    Field("operation", "Operation", "choice", choices=twice(OPERATIONS)),
    Field("resource_type", "On a", "choice", choices=twice(RESOURCES)),
    Field("name", "Named", hint="* for all. Empty for the cluster"),
    Field(
        "pattern_type", "The name is", "choice", choices=(("Literal", "the whole name"), ("Prefixed", "the beginning of the name"))
    ),
    Field("host", "From address", hint="Empty: any. An address, or a network such as 10.0.0.0/8"),
)
_TOPIC: Final = Field("topic", "Topic", "fixed", is_needed=True)
_GROUP: Final = Field("group", "Group", "fixed", is_needed=True)

ACTIONS: Final[Mapping[str, Action]] = {
    "create-topic": Action(
        "Create a topic",
        "Create",
        (
            Field("topic", "Name", hint="Letters, digits, and . _ -", is_needed=True),
            Field("partitions", "Partitions", "number", "Empty: the broker's default"),
            Field("replicas", "Replicas", "number", "Empty: the broker's default"),
            Field("settings", "Settings", "area", "One on each line, such as retention.ms=3600000"),
        ),
        _create_topic,
        _topic_page,
    ),
    "add-partitions": Action(
        "Add partitions",
        "Add",
        (_TOPIC, Field("count", "New number of partitions", "number", is_needed=True)),
        lambda given: AddPartitions(given["topic"], _number(given, "count")),
        _topic_page,
    ),
    "delete-topic": Action(
        "Delete a topic", "Delete", (_TOPIC,), lambda given: DeleteTopic(given["topic"]), lambda _: "/topics", is_dangerous=True
    ),
    "change-setting": Action(
        "Change a setting",
        "Change",
        (
            Field("kind", "Of a", "fixed", is_needed=True, choices=tuple((each, each) for each in TYPES)),
            Field("name", "Name", "fixed", is_needed=True),
            Field("key", "Setting", is_needed=True),
            Field("value", "New value"),
            Field("default", "Remove it, so that the default applies", "check"),
        ),
        _alter,
        _setting_page,
        unlogged=lambda given: ("value",) if may_be_secret(given.get("kind", ""), given.get("key", "").strip()) else (),
    ),
    "produce": Action(
        "Produce a message",
        "Produce",
        (
            _TOPIC,
            Field("key", "Key"),
            Field("value", "Value", "area"),
            Field("null", "No value (null), which deletes the key in a compacted topic", "check"),
            Field("headers", "Headers", "area", "One on each line, such as trace: 17"),
            Field("partition", "Partition", "number", "Empty: the key decides"),
            Field("form", "Key and value are", "choice", choices=(("text", "text"), ("json", "JSON"), ("hex", "hexadecimal"))),
        ),
        _produce,
        lambda given: query_url("/messages", {"topic": given.get("topic", "")}),
    ),
    "resend": Action(
        "Resend a dead letter",
        "Resend",
        (
            _TOPIC,
            Field("partition", "Partition", "fixed", is_needed=True),
            Field("offset", "Offset", "fixed", is_needed=True),
            Field("target", "To topic", hint="Empty: the topic that the letter names"),
        ),
        _letter,
        lambda given: query_url("/messages", {"topic": given.get("topic", "")}),
    ),
    "reset-offsets": Action(
        "Reset the offsets of a group",
        "Reset",
        (
            _GROUP,
            Field(
                "to", "To", "choice", choices=(("earliest", "the oldest records"), ("latest", "the end"), ("at", "this position:"))
            ),
            Field("position", "Position", hint="An offset, or a time such as 2026-11-27T12:00:00Z"),
            Field("shift", "Or by this number", "number", "-10 reads the last ten records again"),
            Field("topics", "Topics", hint="Empty: all of the group. TOPIC, or TOPIC:PARTITION,..., separated by spaces"),
        ),
        _reset,
        _group_page,
    ),
    "delete-group": Action(
        "Delete a group", "Delete", (_GROUP,), lambda given: DeleteGroup(given["group"]), lambda _: "/groups", is_dangerous=True
    ),
    "abort": Action(
        "Abort a hanging transaction",
        "Abort",
        (
            _TOPIC,
            Field("partition", "Partition", "fixed", is_needed=True),
            Field("offset", "First offset", "fixed", is_needed=True),
        ),
        lambda given: AbortTransaction(given["topic"], _number(given, "partition"), _number(given, "offset")),
        lambda _: "/hanging",
        is_dangerous=True,
    ),
    "set-password": Action(
        "Set a password",
        "Set the password",
        (
            Field("user", "User", hint="A new or an existing one", is_needed=True),
            Field("mechanism", "Mechanism", "choice", choices=twice(sorted(MECHANISMS, key=lambda name: name != USUAL_MECHANISM))),
            Field("iterations", "Iterations", "number", f"Empty: {MIN_ITERATIONS}"),
            Field("password", "Password", SECRET, is_needed=True),
        ),
        _set_password,
        lambda _: "/users",
    ),
    "delete-user": Action(
        "Delete a user",
        "Delete",
        (Field("user", "User", "fixed", is_needed=True),),
        lambda given: DeleteUser(given["user"]),
        lambda _: "/users",
        is_dangerous=True,
    ),
    "add-acl": Action("Add an access control entry", "Add", _ACL, lambda given: AddAcl(_acl(given)), lambda _: "/acls"),
    "delete-acl": Action(
        "Delete an access control entry",
        "Delete",
        tuple(each._replace(kind="fixed", hint="") for each in _ACL),
        lambda given: DeleteAcl(_acl(given)),
        lambda _: "/acls",
        is_dangerous=True,
    ),
    "set-quota": Action(
        "Set a quota",
        "Set",
        (
            Field("user", "User", hint=f"Empty: any. {DEFAULT_NAME}: each user without an own quota"),
            Field("client_id", "Client id", hint=f"Empty: any. {DEFAULT_NAME}: each one without an own quota"),
            Field("ip", "Address", hint=f"For connection_creation_rate alone; {DEFAULT_NAME}: each one without an own quota"),
            Field("key", "Quota", "choice", choices=twice(QUOTAS), is_needed=True),
            Field("value", "Value", hint="Bytes, mutations or connections each second, or percent of a thread's time"),
            Field("remove", "Remove it", "check"),
        ),
        _quota,
        lambda _: "/quotas",
    ),
}
