"""Confluent's REST API as a table: methods and paths, the names of the operations, and their handlers. It knows no sockets."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from twisted_kafka.schema_registry import errors
from twisted_kafka.schema_registry.errors import RegistryError
from twisted_kafka.schema_registry.formats import FORMATS
from twisted_kafka.schema_registry.registry import EVERYWHERE, Filter, Registration, Registry
from twisted_kafka.schema_registry.stored import AVRO, Form, Reference, StoredSchema, checked_metadata, checked_rules
from twisted_kafka.schema_registry.subjects import in_context, is_context, plain
from twisted_kafka.system.numbers import INT32_MAX, decimal

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
CONTENT_TYPES: Final = (
    CONTENT_TYPE,
    *("application/vnd.schemaregistry+json", "application/json", "application/octet-stream"),
)
"""The types of bodies that are read."""
MAX_FIELDS: Final = 100
"""A query has at most this many fields."""
_VARIABLE: Final = "*"
_UNSUPPORTED: Final = ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags")


@dataclass(frozen=True, slots=True)
class Call:
    """A request: the values of the variable parts of its path, its query and its body."""

    names: tuple[str, ...]
    query: Mapping[str, Sequence[str]]
    body: Any

    @property
    def subject(self) -> str:
        """The subject, which is the first variable part of most paths."""
        return plain(self.names[0])

    def text(self, name: str, default: str = "") -> str:
        """Return a field of the query."""
        return self.query.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        """Return whether a field of the query is true."""
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a whole number of the query. Raises RegistryError, 404, as Confluent's server does."""
        text = self.text(name, str(default))
        number = decimal(text.removeprefix("-"), INT32_MAX)
        if number is None:
            raise RegistryError(404, f"HTTP 404 Not Found: {name}={text[:40]} is no number")
        return -number if text.startswith("-") else number

    @property
    def filter(self) -> Filter:
        """Which versions count."""
        return Filter(self.flag("deleted"), self.flag("deletedOnly") or self.flag("deleted_only"))

    def page(self, found: Sequence[Any]) -> list[Any]:
        """Return the part of a list that ``offset`` and ``limit`` select."""
        offset, limit = max(self.number("offset", 0), 0), self.number("limit", -1)
        return list(found[offset : offset + limit if limit >= 0 else None])

    @property
    def given(self) -> dict[str, Any]:
        """The body. Raises RegistryError if it is no object."""
        if not isinstance(self.body, dict):
            raise RegistryError(errors.UNPROCESSABLE, "expected a body: a JSON object")
        return self.body

    @property
    def registration(self) -> Registration:
        """The schema in the body. Raises RegistryError."""
        given = self.given
        for name in _UNSUPPORTED:
            if given.get(name):
                raise RegistryError(501, f"{name} is not supported here")
        references = tuple(_reference(each) for each in _taken(given, "references", list, []))
        return Registration(
            _taken(given, "schema", str, ""),
            _taken(given, "schemaType", str, AVRO),
            references,
            _checked(checked_metadata, given.get("metadata")),
            _checked(checked_rules, given.get("ruleSet")),
            _taken(given, "id", int, -1),
            max(_taken(given, "version", int, 0), 0),
        )


def _taken(form: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = form.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise RegistryError(errors.UNPROCESSABLE, f"{name} is {json.dumps(value)[:80]}: expected {_WORDS[kind]}")
    return value


def _checked(check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise RegistryError(errors.UNPROCESSABLE, str(error)) from None


_WORDS: Final[Mapping[type, str]] = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def _reference(form: Any) -> Reference:
    if not isinstance(form, dict) or None in (form.get("name"), form.get("subject"), form.get("version")):
        raise RegistryError(errors.UNPROCESSABLE, f"{json.dumps(form)[:80]} is no reference: expected name, subject and version")
    return Reference(_taken(form, "name", str, ""), plain(_taken(form, "subject", str, "")), _taken(form, "version", int, -1))


class PlainText(str):
    """An answer that is no JSON: the text of a schema."""

    __slots__ = ()


Handler = Callable[[Registry, Call], Any]


class Route(NamedTuple):
    """A method on a path; ``*`` stands for a name. ``api`` is the name of the operation."""

    api: str
    method: str
    path: tuple[str, ...]
    handler: Handler

    def names(self, path: Sequence[str]) -> tuple[str, ...] | None:
        """Return the values of a path's variable parts; None if the path does not match."""
        if len(path) != len(self.path) or any(mine not in (_VARIABLE, its) for mine, its in zip(self.path, path, strict=True)):
            return None
        return tuple(its for mine, its in zip(self.path, path, strict=True) if mine == _VARIABLE)

    @property
    def names_subject(self) -> bool:
        """Whether the first variable part is a subject."""
        return _VARIABLE in self.path and self.path[self.path.index(_VARIABLE) - 1] in ("subjects", "config", "mode")


# Schemas


def _types(registry: Registry, call: Call) -> Any:
    return list(FORMATS)


def _schemas(registry: Registry, call: Call) -> Any:
    found = registry.schemas(call.text("subjectPrefix"), call.filter, latest_only=call.flag("latestOnly"))
    return [_version_form(registry, each, "") for each in call.page(found)]


def _by_id(registry: Registry, call: Call) -> Any:
    found = registry.with_id(_id_of(call), call.text("subject") or None)[0]
    form = {**_content(registry, found, call.text("format")), "guid": found.guid}
    if call.flag("fetchMaxId"):
        form["maxId"] = max(each.schema_id for each in registry.schemas(EVERYWHERE, Filter(deleted=True)))
    return form


def _text_by_id(registry: Registry, call: Call) -> Any:
    found = registry.with_id(_id_of(call), call.text("subject") or None)[0]
    return PlainText(_written(registry, found, call.text("format")))


def _subjects_by_id(registry: Registry, call: Call) -> Any:
    return call.page(list(dict.fromkeys(each.subject for each in _places(registry, call))))


def _versions_by_id(registry: Registry, call: Call) -> Any:
    return call.page([{"subject": each.subject, "version": each.version} for each in _places(registry, call)])


def _places(registry: Registry, call: Call) -> list[StoredSchema]:
    subject = call.text("subject")
    found = [each for each in registry.with_id(_id_of(call), subject or None) if call.filter.takes(each)]
    return [each for each in found if not subject or is_context(subject) or each.subject == subject]


def _by_guid(registry: Registry, call: Call) -> Any:
    found = registry.with_guid(call.names[0])
    return {**_content(registry, found, call.text("format")), "guid": found.guid}


def _ids_by_guid(registry: Registry, call: Call) -> Any:
    found = registry.with_guid(call.names[0])
    return [{"context": ".", "id": found.schema_id}]


def _id_of(call: Call) -> int:
    (text,) = call.names
    schema_id = decimal(text, INT32_MAX)
    if schema_id is None:
        raise RegistryError(404, f"HTTP 404 Not Found: {text[:40]!r} is no id")
    return schema_id


# Subjects


def _subjects(registry: Registry, call: Call) -> Any:
    return call.page(registry.subjects(call.text("subjectPrefix", EVERYWHERE), call.filter))


def _lookup(registry: Registry, call: Call) -> Any:
    normalize, deleted = call.flag("normalize"), call.flag("deleted")
    return _version_form(
        registry, registry.lookup(call.subject, call.registration, normalize=normalize, deleted=deleted), call.text("format")
    )


def _delete_subject(registry: Registry, call: Call) -> Any:
    return registry.delete_subject(call.subject, permanent=call.flag("permanent"))


def _with_metadata(registry: Registry, call: Call) -> Any:
    properties = dict(zip(call.query.get("key", ()), call.query.get("value", ()), strict=False))
    found = registry.with_metadata(call.subject, properties, deleted=call.flag("deleted"))
    return _version_form(registry, found, call.text("format"))


def _versions(registry: Registry, call: Call) -> Any:
    return call.page([each.version for each in registry.versions(call.subject, call.filter)])


def _register(registry: Registry, call: Call) -> Any:
    stored = registry.register(call.subject, call.registration, normalize=call.flag("normalize"))
    content = _content(registry, stored, call.text("format"))
    return {"id": stored.schema_id, "version": stored.version, "guid": stored.guid, "schemaType": stored.schema_type, **content}


def _version(registry: Registry, call: Call) -> Any:
    found = registry.version(call.subject, call.names[1], deleted=call.flag("deleted"))
    return _version_form(registry, found, call.text("format"))


def _version_text(registry: Registry, call: Call) -> Any:
    found = registry.version(call.subject, call.names[1], deleted=call.flag("deleted"))
    return PlainText(_written(registry, found, call.text("format")))


def _referenced_by(registry: Registry, call: Call) -> Any:
    return call.page(registry.referenced_by(call.subject, call.names[1], deleted=call.flag("deleted")))


def _delete_version(registry: Registry, call: Call) -> Any:
    return registry.delete_version(call.subject, call.names[1], permanent=call.flag("permanent"))


def _contexts(registry: Registry, call: Call) -> Any:
    return call.page(registry.contexts())


# Compatibility, settings, modes


def _compatibility(registry: Registry, call: Call) -> Any:
    version = call.names[1] if len(call.names) > 1 else None
    found: list[str]
    try:
        found = registry.incompatible(call.subject, version, call.registration, normalize=call.flag("normalize"))
    except RegistryError as error:
        if error.code != errors.INVALID_SCHEMA or not call.flag("verbose"):
            raise
        found = [str(error)]
    return {"is_compatible": not found, **({"messages": found} if call.flag("verbose") else {})}


def _config(registry: Registry, call: Call) -> Any:
    return registry.config(_scope(call), in_scope=call.flag("defaultToGlobal"))


def _set_config(registry: Registry, call: Call) -> Any:
    form = registry.set_config(_scope(call), call.given)
    level = form.pop("compatibilityLevel", None)
    return {**({} if level is None else {"compatibility": level}), **form}


def _delete_config(registry: Registry, call: Call) -> Any:
    return registry.delete_config(_scope(call))


def _mode(registry: Registry, call: Call) -> Any:
    return {"mode": registry.mode(_scope(call), in_scope=call.flag("defaultToGlobal"))}


def _set_mode(registry: Registry, call: Call) -> Any:
    mode = _taken(call.given, "mode", str, "")
    return {"mode": registry.set_mode(_scope(call), mode, force=call.flag("force"))}


def _delete_mode(registry: Registry, call: Call) -> Any:
    return {"mode": registry.delete_mode(_scope(call))}


def _scope(call: Call) -> str | None:
    """Return the subject; None stands for all subjects."""
    return call.subject or None if call.names else None


def _root(registry: Registry, call: Call) -> Any:
    return {}


# Forms


def _written(registry: Registry, schema: StoredSchema, form: str) -> str:
    """Return the text of a schema in the form that was asked for."""
    return registry.parse(schema).formatted(form) if form else schema.schema


def _content(registry: Registry, schema: StoredSchema, form: str) -> Form:
    return {**schema.content(), "schema": _written(registry, schema, form)}


def _version_form(registry: Registry, schema: StoredSchema, form: str) -> Form:
    place: Form = {"subject": schema.subject, "version": schema.version, "id": schema.schema_id, "guid": schema.guid}
    deleted: Form = {"deleted": True} if schema.is_deleted else {}
    return {**place, **_content(registry, schema, form), **deleted}


def _route(api: str, method: str, path: str, handler: Handler) -> Route:
    return Route(api, method, tuple(path.split("/")[1:]), handler)


ROUTES: Final = (
    _route("root", "GET", "/", _root),
    _route("register", "POST", "/subjects/*/versions", _register),
    _route("lookUpSchemaUnderSubject", "POST", "/subjects/*", _lookup),
    _route("getSchema", "GET", "/schemas/ids/*", _by_id),
    _route("getSchemaOnly", "GET", "/schemas/ids/*/schema", _text_by_id),
    _route("getSubjects", "GET", "/schemas/ids/*/subjects", _subjects_by_id),
    _route("getVersions", "GET", "/schemas/ids/*/versions", _versions_by_id),
    _route("getSchemaByGuid", "GET", "/schemas/guids/*", _by_guid),
    _route("getIdsByGuid", "GET", "/schemas/guids/*/ids", _ids_by_guid),
    _route("getSchemas", "GET", "/schemas", _schemas),
    _route("getSchemaTypes", "GET", "/schemas/types", _types),
    _route("list", "GET", "/subjects", _subjects),
    _route("listVersions", "GET", "/subjects/*/versions", _versions),
    _route("getSchemaByVersion", "GET", "/subjects/*/versions/*", _version),
    _route("getSchemaOnlyByVersion", "GET", "/subjects/*/versions/*/schema", _version_text),
    _route("getReferencedBy", "GET", "/subjects/*/versions/*/referencedby", _referenced_by),
    _route("getLatestWithMetadata", "GET", "/subjects/*/metadata", _with_metadata),
    _route("deleteSubject", "DELETE", "/subjects/*", _delete_subject),
    _route("deleteSchemaVersion", "DELETE", "/subjects/*/versions/*", _delete_version),
    _route("testCompatibilityForSubject", "POST", "/compatibility/subjects/*/versions", _compatibility),
    _route("testCompatibilityBySubjectName", "POST", "/compatibility/subjects/*/versions/*", _compatibility),
    _route("getTopLevelConfig", "GET", "/config", _config),
    _route("updateTopLevelConfig", "PUT", "/config", _set_config),
    _route("deleteTopLevelConfig", "DELETE", "/config", _delete_config),
    _route("getSubjectLevelConfig", "GET", "/config/*", _config),
    _route("updateSubjectLevelConfig", "PUT", "/config/*", _set_config),
    _route("deleteSubjectConfig", "DELETE", "/config/*", _delete_config),
    _route("getTopLevelMode", "GET", "/mode", _mode),
    _route("updateTopLevelMode", "PUT", "/mode", _set_mode),
    _route("deleteTopLevelMode", "DELETE", "/mode", _delete_mode),
    _route("getMode", "GET", "/mode/*", _mode),
    _route("updateMode", "PUT", "/mode/*", _set_mode),
    _route("deleteSubjectMode", "DELETE", "/mode/*", _delete_mode),
    _route("listContexts", "GET", "/contexts", _contexts),
)
"""All operations, by the names that Confluent's server has for them."""


class Request(NamedTuple):
    """A request with its operation."""

    route: Route
    call: Call


def find(method: str, uri: str) -> Request:
    """Return the operation that a request names, without its body. Raises RegistryError, 404 or 405."""
    path_text, _, query_text = uri.partition("?")
    path = [unquote(part) for part in path_text.rstrip("/").split("/")[1:]] or [""]
    query: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(query_text, keep_blank_values=True, max_num_fields=MAX_FIELDS):
            query.setdefault(name, []).append(value)
    except ValueError:
        raise RegistryError(400, f"the query has more than {MAX_FIELDS} fields") from None
    context = None
    if len(path) > 2 and path[0] == "contexts":
        context, path = path[1], path[2:]
    methods = []
    for route in ROUTES:
        names = route.names(path)
        if names is None:
            continue
        if route.method == method:
            return Request(route, _within(context, route, names, query))
        methods.append(route.method)
    if methods:
        raise RegistryError(405, "HTTP 405 Method Not Allowed")
    raise RegistryError(404, "HTTP 404 Not Found")


def _within(context: str | None, route: Route, names: tuple[str, ...], query: dict[str, list[str]]) -> Call:
    """Return the call with its subjects in a context, which the path may begin with."""
    if context is None:
        return Call(names, query, None)
    whole = f":{context}:"
    if route.names_subject:
        names = (in_context(context, names[0]), *names[1:])
    elif route.path[:1] in (("config",), ("mode",)):
        return Call((whole,), query, None)
    elif route.path[:1] == ("subjects",):
        query = {**query, "subjectPrefix": [whole + query.get("subjectPrefix", [""])[0]]}
    else:
        query = {**query, "subject": [in_context(context, query["subject"][0]) if "subject" in query else whole]}
    return Call(names, query, None)


def read_body(body: bytes, content_type: str) -> Any:
    """Return the JSON of a body; None without a body. Raises RegistryError."""
    if not body:
        return None
    if content_type and content_type.partition(";")[0].strip().lower() not in CONTENT_TYPES:
        raise RegistryError(415, "HTTP 415 Unsupported Media Type")
    try:
        form = json.loads(body)
        if b"\\u" in body:
            json.dumps(form, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"the body is no JSON: {error}") from None
    return form


def form_of(registry: Registry, request: Request) -> Any:
    """Return the answer to a request, as JSON or as a PlainText. Raises RegistryError."""
    with registry:
        return request.route.handler(registry, request.call)
