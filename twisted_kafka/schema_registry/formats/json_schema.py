"""JSON Schemas, by the library jsonschema."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self
from urllib.parse import urljoin

import jsonschema.exceptions
import jsonschema.validators
import referencing
import referencing.exceptions
from referencing.jsonschema import DRAFT7, specification_with
from typing_extensions import override

from twisted_kafka.schema_registry.formats.json_differences import Comparison
from twisted_kafka.schema_registry.formats.json_model import Resolver, node_of, references
from twisted_kafka.schema_registry.formats.parsed import RESOLVED, Dependencies, ParsedSchema, SchemaError

MAX_COMPARED: Final = 100_000
"""At most this many pairs of entries are compared: a second."""
_VALUES: Final = ("const", "default", "examples")
_DEFAULT_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
"""The draft of schemas without a ``$schema``, as in Confluent's registry."""


class JsonSchema(ParsedSchema):
    """A JSON Schema of any draft from 3 on. Its references are documents, which ``$ref`` finds by their names."""

    schema_type: ClassVar[str] = "JSON"

    def __init__(self, text: str, dependencies: Dependencies) -> None:
        """Raises SchemaError, one line. Nothing is read from the network."""
        self._form = _read(text)
        self._dependencies = dependencies
        self.text = _written(self._form)
        _check(self._form)
        dialect = self._form.get("$schema", _DEFAULT_DIALECT) if isinstance(self._form, dict) else _DEFAULT_DIALECT
        specification = specification_with(str(dialect), default=DRAFT7)
        base = str(self._form.get("$id", self._form.get("id", ""))) if isinstance(self._form, dict) else ""
        known: Any = referencing.Registry()
        for name, other in dependencies.items():
            resource = specification.create_resource(_read(other))
            known = known.with_resources([(uri, resource) for uri in dict.fromkeys((name, urljoin(base, name)))])
        own = specification.create_resource(self._form)
        try:
            found = known.with_resource(base, own).crawl().resolver_with_root(own)
        except (referencing.exceptions.Unresolvable, ValueError) as error:
            raise SchemaError(f"the schema has an invalid $id: {error}") from None
        self._resolver = Resolver(found, specification)
        for reference in references(self._form):
            self._resolver.lookup(reference)

    @override
    def normalized(self) -> Self:
        return type(self)(json.dumps(self._form, sort_keys=True), self._dependencies)

    @override
    def formatted(self, form: str) -> str:
        return self.resolved() if form == RESOLVED else self.text

    @override
    def resolved(self) -> str:
        """Return the schema itself: the documents that it refers to are apart from it."""
        return self.text

    @override
    def cannot_read(self, written: "JsonSchema") -> Sequence[str]:
        return [str(each) for each in Comparison().all_differences(written.node(), self.node())]

    def node(self) -> Any:
        """Return the view for comparisons."""
        return node_of(self._form, self._resolver)


def _read(text: str) -> Any:
    try:
        form = json.loads(text)
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None
    except ValueError as error:
        raise SchemaError(f"no JSON: {error}") from None
    if isinstance(form, dict) and not isinstance(form.get("$schema", ""), str):
        raise SchemaError(f"$schema is {form['$schema']!r:.80}: expected a text")
    if not isinstance(form, dict | bool):
        raise SchemaError(f"{text!r:.80} is no JSON Schema: expected an object, true or false")
    return form


def _check(form: Any) -> None:
    _check_lists(form)
    validator = jsonschema.validators.validator_for(form, default=jsonschema.validators.Draft7Validator)
    try:
        validator.check_schema(form)
    except jsonschema.exceptions.SchemaError as error:
        raise SchemaError(f"at {error.json_path}: {error.message}") from None
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None


def _check_lists(form: Any) -> None:
    """Raise SchemaError for long lists that cannot be sorted: the library compares each entry with all others."""
    left = MAX_COMPARED
    pending: list[tuple[str, Any]] = [("", form)]
    while pending:
        keyword, each = pending.pop()
        if isinstance(each, dict):
            pending += [(name, value) for name, value in each.items() if name not in _VALUES]
        elif isinstance(each, list):
            kinds = {type(entry) for entry in each}
            if len(kinds) > 1 or (keyword == "enum" and not kinds.isdisjoint((dict, list))):
                left -= len(each) ** 2
            if left < 0:
                raise SchemaError(f"{keyword} has {len(each)} entries of several types: too many to compare")
            pending += [("", entry) for entry in each]


def _written(form: Any) -> str:
    return json.dumps(form, separators=(",", ":"), ensure_ascii=False)
