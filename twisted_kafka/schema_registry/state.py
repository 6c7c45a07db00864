"""What the records of the topic ``_schemas`` say. Only ``replay`` changes it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from twisted_kafka.schema_registry.compatibility import DEFAULT_LEVEL
from twisted_kafka.schema_registry.stored import StoredSchema, checked_config, stored_schema
from twisted_kafka.schema_registry.subjects import DEFAULT_CONTEXT, context_of, in_context, is_context

DEFAULT_MODE: Final = "READWRITE"
OVERRIDE: Final = "READONLY_OVERRIDE"
"""The mode of all subjects that overrides those of single ones."""

Place = tuple[str, int]
"""A subject and a version."""


class RegistryState:
    """Subjects with their versions, settings and modes."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, StoredSchema]] = {}
        self._places: dict[tuple[str, int], dict[Place, None]] = {}
        """The places of each id, by context."""
        self._ids: dict[tuple[str, tuple[object, ...]], int] = {}
        self._next_ids: dict[str, int] = {}
        self._referring: dict[Place, set[Place]] = {}
        self._configs: dict[str | None, Mapping[str, Any]] = {}
        self._modes: dict[str | None, str] = {}
        self._contexts: dict[str, None] = {DEFAULT_CONTEXT: None}

    # Records

    def replay(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        """Apply a record. Raises KeyError, TypeError and ValueError for one of another form."""
        kind, subject = key["keytype"], key.get("subject") or None
        if kind == "SCHEMA":
            place = str(key["subject"]), int(key["version"])
            self._put(*place, None if value is None else replace(stored_schema(value), subject=place[0], version=place[1]))
        elif kind == "CONFIG":
            own = None if value is None else {name: each for name, each in checked_config(value).items() if name != "subject"}
            self._set(self._configs, subject, own)
        elif kind == "MODE":
            self._set(self._modes, subject, None if value is None else str(value["mode"]))
        elif kind == "CONTEXT" and value is not None:
            self._contexts.setdefault(str(key["context"]))
        elif kind == "DELETE_SUBJECT" and value is not None:
            for version, schema in list(self._subjects.get(str(value["subject"]), {}).items()):
                if version <= int(value["version"]):
                    self._put(schema.subject, version, replace(schema, is_deleted=True))

    @staticmethod
    def _set(values: dict[str | None, Any], subject: str | None, value: Any) -> None:
        if value is None:
            values.pop(subject, None)
        else:
            values[subject] = value

    def _put(self, subject: str, version: int, schema: StoredSchema | None) -> None:
        place, versions = (subject, version), self._subjects.setdefault(subject, {})
        old = versions.pop(version, None)
        if old is not None:
            self._forget(old, place)
        if schema is None:
            if not versions:
                del self._subjects[subject]
            return
        versions[version] = schema
        if len(versions) > 1 and version < max(versions):
            self._subjects[subject] = dict(sorted(versions.items()))
        context = context_of(subject)
        self._contexts.setdefault(context)
        self._places.setdefault((context, schema.schema_id), {})[place] = None
        self._ids[context, schema.identity] = schema.schema_id
        self._next_ids[context] = max(self._next_ids.get(context, 1), schema.schema_id + 1)
        for each in schema.references:
            self._referring.setdefault((in_context(context, each.subject), each.version), set()).add(place)

    def _forget(self, schema: StoredSchema, place: Place) -> None:
        context = context_of(schema.subject)
        places = self._places[context, schema.schema_id]
        places.pop(place, None)
        if not places:
            del self._places[context, schema.schema_id]
            self._ids.pop((context, schema.identity), None)
        for each in schema.references:
            self._referring[in_context(context, each.subject), each.version].discard(place)

    # Questions

    def versions(self, subject: str) -> list[StoredSchema]:
        """Return all versions of a subject, the deleted ones too, in ascending order."""
        return list(self._subjects.get(subject, {}).values())

    def version(self, subject: str, version: int) -> StoredSchema | None:
        """Return a version, also a deleted one; None if it does not exist."""
        return self._subjects.get(subject, {}).get(version)

    def subjects(self) -> list[str]:
        """Return the sorted names of the subjects, also of those whose versions are all deleted."""
        return sorted(self._subjects)

    def contexts(self) -> list[str]:
        """Return the sorted names of the contexts."""
        return sorted(self._contexts)

    def with_id(self, context: str, schema_id: int) -> Iterator[StoredSchema]:
        """Yield the versions with an id, first the oldest."""
        for subject, version in self._places.get((context, schema_id), {}):
            yield self._subjects[subject][version]

    def id_of(self, context: str, schema: StoredSchema) -> int | None:
        """Return the id of the same schema in a context."""
        return self._ids.get((context, schema.identity))

    def next_id(self, context: str) -> int:
        """Return the next free id."""
        return self._next_ids.get(context, 1)

    def referring(self, subject: str, version: int) -> list[StoredSchema]:
        """Return the versions that refer to one, also the deleted ones."""
        return [self._subjects[name][number] for name, number in sorted(self._referring.get((subject, version), ()))]

    def own_config(self, subject: str | None) -> Mapping[str, Any] | None:
        """Return the settings of exactly this subject; those of all subjects for None."""
        return self._configs.get(subject)

    def config(self, subject: str | None) -> dict[str, Any]:
        """Return the settings that count for a subject."""
        merged: dict[str, Any] = {"compatibilityLevel": DEFAULT_LEVEL}
        for scope in reversed(self._scopes(subject)):
            merged |= self._configs.get(scope) or {}
        return merged

    def own_mode(self, subject: str | None) -> str | None:
        """Return the mode of exactly this subject."""
        return self._modes.get(subject)

    def mode(self, subject: str | None) -> str:
        """Return the mode that counts for a subject."""
        if self._modes.get(None) == OVERRIDE:
            return OVERRIDE
        return next((self._modes[scope] for scope in self._scopes(subject) if scope in self._modes), DEFAULT_MODE)

    @staticmethod
    def _scopes(subject: str | None) -> list[str | None]:
        """Return a subject, its context and everything, the closest first."""
        scopes: list[str | None] = [] if subject is None else [subject]
        context = context_of(subject)
        if context != DEFAULT_CONTEXT and subject is not None and not is_context(subject):
            scopes.append(f":{context}:")
        return [*scopes, None]
