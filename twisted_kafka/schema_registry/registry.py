"""The registry: what each request of Confluent's REST API means, without HTTP.

A change has three steps: the state is read, records are appended to the topic, and the state follows when they are read from
the topic. So several registries may use one topic, and a new one knows what an earlier one has stored.
"""

import abc
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.schema_registry import errors
from twisted_kafka.schema_registry.compatibility import LEVELS, Earlier, incompatibilities
from twisted_kafka.schema_registry.errors import RegistryError
from twisted_kafka.schema_registry.formats import FORMATS, parse
from twisted_kafka.schema_registry.formats.parsed import ParsedSchema, SchemaError, as_schema_errors
from twisted_kafka.schema_registry.state import RegistryState
from twisted_kafka.schema_registry.stored import (
    AVRO,
    Form,
    Reference,
    StoredSchema,
    checked_config,
    clear_subject_key,
    config_key,
    delete_subject_key,
    encoded,
    mode_key,
)
from twisted_kafka.schema_registry.subjects import DEFAULT_CONTEXT, context_of, in_context, is_context, is_valid
from twisted_kafka.system import machine
from twisted_kafka.system.bounded import BoundedCache

MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
LATEST: Final = "latest"
EVERYWHERE: Final = ":*:"
"""The prefix of the subjects of all contexts."""
MAX_VERSION: Final = 2**31 - 1
MAX_REFERENCES: Final = 1000
"""A schema may refer to this many others, directly and indirectly."""
MAX_DEPTH: Final = 100
"""A chain of schemas that refer to each other may have this length."""
MAX_SCHEMA_BYTES: Final = 1_000_000
"""A larger schema is rejected: no record of the topic could carry it, and parsing would take minutes."""
MAX_PARSED_BYTES: Final = 16 * 1024 * 1024
"""Schemas with texts of this size are kept in their parsed form."""
_WHOLE: Final = re.compile(r"[0-9]{1,10}")
CONFIG_FIELDS: Final = (
    *("compatibilityLevel", "compatibilityGroup", "normalize", "alias"),
    *("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"),
)
"""The settings of a subject, by Confluent's names."""

_log = Logger()


class SchemaLog(abc.ABC):
    """The topic with the schemas, read and written by one registry."""

    @abc.abstractmethod
    def new_records(self) -> tuple[bool, Sequence[tuple[bytes | None, bytes | None]]]:
        """Return the records since the last call, as keys and values; True if they begin at the start again.

        Raises RegistryError.
        """

    @abc.abstractmethod
    def append(self, records: Sequence[tuple[str, str | None]]) -> None:
        """Append records in one batch. Raises RegistryError."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The schema in a request."""

    schema: str = ""
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None
    schema_id: int = -1
    version: int = 0


class Filter(NamedTuple):
    """Which versions count."""

    deleted: bool = False
    deleted_only: bool = False

    def takes(self, schema: StoredSchema) -> bool:
        """Whether a version counts."""
        return schema.is_deleted if self.deleted_only else self.deleted or not schema.is_deleted


PRESENT: Final = Filter()
ALL: Final = Filter(deleted=True)


class Registry:
    """Answers from the state and writes to the topic. Any thread may call it; one call works at a time."""

    def __init__(self, log: SchemaLog) -> None:
        self._log = log
        self._state = RegistryState()
        self._parsed: BoundedCache[tuple[str, str, tuple[tuple[str, str], ...]], ParsedSchema] = BoundedCache(
            MAX_PARSED_BYTES, lambda key, _: len(key[1]) + sum(len(text) for _, text in key[2])
        )
        self._lock = machine.RLock()

    def __enter__(self) -> None:
        """Begin a request: no other one is handled until the block ends, and the state is up to date. Raises RegistryError."""
        self._lock.acquire()
        try:
            self._catch_up()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _catch_up(self) -> None:
        is_new, records = self._log.new_records()
        if is_new:
            self._state = RegistryState()
        for key, value in records:
            try:
                self._state.replay(json.loads(key or b""), None if value is None else json.loads(value))
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                _log.warn(
                    "Skipping a record in the topic of schemas that no schema registry wrote: key {key}: {error}",
                    key=repr(key)[:200],
                    error=error,
                )

    def _write(self, records: Iterable[tuple[Form, Form | None]]) -> None:
        self._log.append([(encoded(key), None if value is None else encoded(value)) for key, value in records])
        self._catch_up()

    # Subjects and versions

    def subjects(self, prefix: str, wanted: Filter) -> list[str]:
        """Return the names of the subjects with a version that counts."""
        names = (name for name in self._state.subjects() if _has_prefix(name, prefix))
        return [name for name in names if any(map(wanted.takes, self._state.versions(name)))]

    def versions(self, subject: str, wanted: Filter) -> list[StoredSchema]:
        """Return the versions of a subject that count. Raises RegistryError if the subject is unknown."""
        subject = self._alias(subject)
        found = self._state.versions(subject)
        if not any(wanted.deleted or wanted.deleted_only or not each.is_deleted for each in found):
            raise errors.subject_not_found(subject)
        return [each for each in found if wanted.takes(each)]

    def version(self, subject: str, text: str, *, deleted: bool = False) -> StoredSchema:
        """Return a version, by its number or ``latest``. Raises RegistryError."""
        subject, number = self._alias(subject), read_version(text)
        found = self._find(subject, number, deleted=deleted)
        if found is None and context_of(subject) == DEFAULT_CONTEXT:
            others = (in_context(context, subject) for context in self._state.contexts() if context != DEFAULT_CONTEXT)
            found = next((each for name in others if (each := self._find(name, number, deleted=deleted))), None)
        if found is None:
            raise self._why_not(subject, number, deleted=deleted)
        return found

    def _find(self, subject: str, number: int, *, deleted: bool) -> StoredSchema | None:
        wanted = Filter(deleted=deleted)
        if number == -1:
            return next((each for each in reversed(self._state.versions(subject)) if wanted.takes(each)), None)
        found = self._state.version(subject, number)
        return found if found is not None and wanted.takes(found) else None

    def _why_not(self, subject: str, number: int, *, deleted: bool) -> RegistryError:
        is_known = any(map(Filter(deleted=deleted).takes, self._state.versions(subject)))
        return errors.version_not_found(number) if is_known else errors.subject_not_found(subject)

    def referenced_by(self, subject: str, text: str, *, deleted: bool = False) -> list[int]:
        """Return the ids of the schemas that refer to a version."""
        found = self.version(subject, text, deleted=True)
        referring = self._state.referring(found.subject, found.version)
        return sorted({each.schema_id for each in referring if deleted or not each.is_deleted})

    def schemas(self, prefix: str, wanted: Filter, *, latest_only: bool = False) -> list[StoredSchema]:
        """Return the versions of all subjects with a prefix."""
        found = []
        for name in self._state.subjects():
            if _has_prefix(name, prefix):
                each = [schema for schema in self._state.versions(name) if wanted.takes(schema)]
                found += each[-1:] if latest_only else each
        return found

    def contexts(self) -> list[str]:
        """Return the names of the contexts."""
        return self._state.contexts()

    def with_metadata(self, subject: str, properties: Mapping[str, str], *, deleted: bool = False) -> StoredSchema:
        """Return the latest version whose metadata has these properties. Raises RegistryError."""
        subject, wanted = self._alias(subject), Filter(deleted=deleted)
        for each in reversed(self._state.versions(subject)):
            has = (each.metadata or {}).get("properties") or {}
            if wanted.takes(each) and all(has.get(name) == value for name, value in properties.items()):
                return each
        if not any(map(wanted.takes, self._state.versions(subject))):
            raise errors.subject_not_found(subject)
        raise errors.schema_not_found()

    # Ids

    def with_id(self, schema_id: int, subject: str | None) -> list[StoredSchema]:
        """Return the versions with an id, in the context of ``subject``, or in the first one that has it. Raises RegistryError."""
        subject = None if not subject else self._alias(subject)
        context = context_of(subject)
        others = self._state.contexts() if context == DEFAULT_CONTEXT else []
        for each in dict.fromkeys((context, *others)):
            found = list(self._state.with_id(each, schema_id))
            named = [schema for schema in found if schema.subject == subject]
            if found:
                return named or found
        raise errors.schema_not_found(schema_id)

    def with_guid(self, guid: str) -> StoredSchema:
        """Return a schema by the hash of its content. Raises RegistryError."""
        for each in self.schemas(EVERYWHERE, ALL):
            if each.guid == guid.lower():
                return each
        raise errors.schema_not_found(guid)

    # Schemas

    def parse(self, schema: StoredSchema) -> ParsedSchema:
        """Return a stored schema in its parsed form. Raises RegistryError if it cannot be parsed."""
        return self._parse(schema.subject, schema)

    def register(self, subject: str, wanted: Registration, *, normalize: bool = False) -> StoredSchema:
        """Store a schema as a new version, unless the subject has it; return it with its id. Raises RegistryError."""
        if not is_valid(subject) or is_context(subject):
            raise RegistryError(errors.INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid.")
        mode, context = self._state.mode(subject), context_of(subject)
        self._check_mode(subject, mode, wanted)
        versions = self._state.versions(subject)
        present = [each for each in versions if not each.is_deleted]
        is_import = mode in ("IMPORT", "FORWARD")
        next_version = max((each.version for each in versions), default=0) + 1
        if not is_import:
            wanted = self._completed(subject, wanted, present[-1] if present else None)
        new, parsed = self._read(subject, wanted, normalize=normalize)
        known_id = self._state.id_of(context, new)
        if known_id is not None and wanted.schema_id in (-1, known_id) and not wanted.version:
            same = next((each for each in reversed(present) if each.identity == new.identity), None)
            if same is not None:
                return same
        if not wanted.version and wanted.schema_id == -1:
            same = self._same(new, parsed, present)
            if same is not None:
                return same
        if not is_import:
            self._check_compatible(subject, parsed, new.metadata, present)
            if wanted.version not in (0, next_version):
                raise errors.invalid_schema("Version is not one more than previous version")
        new = replace(new, version=wanted.version or next_version, schema_id=self._id_for(new, wanted, known_id))
        dropped = [each for each in versions if each.is_deleted and each.schema_id == new.schema_id and each.version < new.version]
        dropped = [each for each in dropped if not self._state.referring(subject, each.version)]
        self._write([*((each.key(), None) for each in dropped), (new.key(), new.value())])
        return new

    def _id_for(self, new: StoredSchema, wanted: Registration, known_id: int | None) -> int:
        context = context_of(new.subject)
        if wanted.schema_id < 0:
            return known_id if known_id is not None else self._state.next_id(context)
        if any(each.identity != new.identity for each in self._state.with_id(context, wanted.schema_id)):
            raise errors.not_permitted(f"Overwrite new schema with id {wanted.schema_id} in context {context} is not permitted.")
        return wanted.schema_id

    @staticmethod
    def _check_mode(subject: str, mode: str, wanted: Registration) -> None:
        where = f"Subject {subject} in context {context_of(subject)}"
        if mode.startswith("READONLY"):
            raise errors.not_permitted(f"{where} is in read-only mode")
        if wanted.schema_id >= 0 and mode not in ("IMPORT", "FORWARD"):
            raise errors.not_permitted(f"{where} is not in import mode")
        if wanted.schema_id < 0 and mode != "READWRITE":
            raise errors.not_permitted(f"{where} is not in read-write mode")

    def _completed(self, subject: str, wanted: Registration, previous: StoredSchema | None) -> Registration:
        """Return the schema to register: the previous version fills gaps in a request, and settings add metadata and rules."""
        if not wanted.schema.strip():
            if previous is None:
                raise errors.invalid_schema("Empty schema")
            same = {"schema": previous.schema, "schema_type": previous.schema_type, "references": previous.references}
            wanted = replace(wanted, **same)  # type: ignore[arg-type]
        config = self._state.config(subject)
        metadata = wanted.metadata if wanted.metadata is not None or previous is None else previous.metadata
        rule_set = wanted.rule_set if wanted.rule_set is not None or previous is None else previous.rule_set
        return replace(
            wanted,
            metadata=_merged(config.get("defaultMetadata"), metadata, config.get("overrideMetadata")),
            rule_set=_merged(config.get("defaultRuleSet"), rule_set, config.get("overrideRuleSet")),
        )

    def _read(self, subject: str, wanted: Registration, *, normalize: bool) -> tuple[StoredSchema, ParsedSchema]:
        """Return the schema of a request in canonical form. Raises RegistryError."""
        if not wanted.schema.strip():
            raise errors.invalid_schema("Empty schema")
        if len(wanted.schema) > MAX_SCHEMA_BYTES:
            raise RegistryError(errors.SCHEMA_TOO_LARGE, f"the schema has more than {MAX_SCHEMA_BYTES} characters")
        given = StoredSchema(subject, 0, -1, wanted.schema, wanted.schema_type, wanted.references, wanted.metadata, wanted.rule_set)
        parsed = self._parse(subject, given)
        references = given.references
        if normalize or self._state.config(subject).get("normalize"):
            try:
                with as_schema_errors():
                    parsed, references = parsed.normalized(), tuple(sorted(set(references)))
            except SchemaError as error:
                raise errors.invalid_schema(f"Invalid schema of type {wanted.schema_type}, details: {error}") from None
        return replace(given, schema=parsed.text, references=references), parsed

    def _parse(self, subject: str, schema: StoredSchema) -> ParsedSchema:
        dependencies: dict[str, str] = {}
        for name, found in self._resolved(subject, schema.references):
            dependencies.setdefault(name, found.schema)
        key = schema.schema_type, schema.schema, tuple(dependencies.items())
        parsed = self._parsed.get(key)
        if schema.schema_type not in FORMATS:
            near = f": did you mean {known!r}?" if (known := schema.schema_type.upper()) in FORMATS else ""
            raise errors.invalid_schema(f"Invalid schema type {schema.schema_type}, expected one of {', '.join(FORMATS)}{near}")
        if parsed is None:
            try:
                parsed = parse(schema.schema_type, schema.schema, dependencies)
            except SchemaError as error:
                raise errors.invalid_schema(f"Invalid schema of type {schema.schema_type}, details: {error}") from None
            self._parsed.put(key, parsed)
        return parsed

    def _resolved(self, subject: str, references: Sequence[Reference]) -> Iterator[tuple[str, StoredSchema]]:
        """Yield the schemas that references mean, each after its own references. Raises RegistryError."""
        found: dict[str, StoredSchema] = {}

        def follow(parent: str, each: Reference, depth: int = 0) -> None:
            if each.name in found:
                return
            if depth >= MAX_DEPTH:
                raise errors.invalid_schema(f"the schema refers to others over more than {MAX_DEPTH} steps")
            name = in_context(context_of(parent), each.subject)
            schema = self._find(name, each.version, deleted=True)
            if schema is None:
                text = f'No schema reference found for subject "{each.subject}" and version {each.version}'
                raise errors.invalid_schema(text)
            if len(found) >= MAX_REFERENCES:
                raise errors.invalid_schema(f"the schema refers to more than {MAX_REFERENCES} others")
            for inner in schema.references:
                follow(name, inner, depth + 1)
            found[each.name] = schema

        for each in references:
            follow(subject, each)
        return iter(found.items())

    def _same(self, new: StoredSchema, parsed: ParsedSchema, versions: Sequence[StoredSchema]) -> StoredSchema | None:
        """Return the latest version that is the same schema, written in another way: a client may send references resolved."""
        for each in reversed(versions):
            if each.schema_type != new.schema_type or (new.references and new.references != each.references):
                continue
            has_same_rest = (new.metadata, new.rule_set) in ((None, None), (each.metadata, each.rule_set))
            if has_same_rest and self.parse(each).resolved() == parsed.resolved():
                return each
        return None

    def lookup(self, subject: str, wanted: Registration, *, normalize: bool = False, deleted: bool = False) -> StoredSchema:
        """Return the version of a subject with a schema. Raises RegistryError."""
        subject = self._alias(subject)
        new, parsed = self._read(subject, wanted, normalize=normalize)
        versions = [each for each in self._state.versions(subject) if deleted or not each.is_deleted]
        same = next((each for each in reversed(versions) if each.identity == new.identity), None) or self._same(
            new, parsed, versions
        )
        if same is not None:
            return same
        raise errors.schema_not_found() if versions else errors.subject_not_found(subject)

    # Compatibility

    def incompatible(self, subject: str, version: str | None, wanted: Registration, *, normalize: bool = False) -> list[str]:
        """Return why a schema is incompatible with a version, or with what the subject's level names; empty if it is not.

        Raises RegistryError.
        """
        subject = self._alias(subject)
        present = [each for each in self._state.versions(subject) if not each.is_deleted]
        if version is not None:
            number = read_version(version)
            found = self._find(subject, number, deleted=False)
            if found is None and number != -1:
                raise errors.version_not_found(number)
            present = [] if found is None else [found]
        _, parsed = self._read(subject, wanted, normalize=normalize)
        return self._incompatible(subject, parsed, wanted.metadata, present)

    def _check_compatible(
        self, subject: str, parsed: ParsedSchema, metadata: Mapping[str, Any] | None, present: Sequence[StoredSchema]
    ) -> None:
        found = self._incompatible(subject, parsed, metadata, present)
        if found:
            text = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
            raise RegistryError(errors.CONFLICT, f"{text}, details: [{', '.join(found)}]")

    def _incompatible(
        self, subject: str, parsed: ParsedSchema, metadata: Mapping[str, Any] | None, present: Sequence[StoredSchema]
    ) -> list[str]:
        config = self._state.config(subject)
        group = config.get("compatibilityGroup")
        if group:
            present = [each for each in present if _property(each.metadata, group) == _property(metadata, group)]
        earlier = [Earlier(each.version, _later(self.parse, each)) for each in present]
        return incompatibilities(config["compatibilityLevel"], parsed, earlier)

    # Deletion

    def delete_version(self, subject: str, text: str, *, permanent: bool = False) -> int:
        """Delete a version, softly unless ``permanent``; return its number. Raises RegistryError."""
        subject, number = self._alias(subject), read_version(text)
        found = self._find(subject, number, deleted=number != -1)
        if found is None:
            raise self._why_not(subject, number, deleted=True)
        if found.is_deleted and not permanent:
            what = f"Subject '{subject}' Version {found.version} was soft deleted. Set permanent=true to delete permanently"
            raise RegistryError(errors.VERSION_SOFT_DELETED, what)
        self._check_writable(subject)
        self._check_unreferenced(found, permanent=permanent)
        if not permanent:
            deleted = replace(found, is_deleted=True)
            self._write([(deleted.key(), deleted.value())])
            return found.version
        if not found.is_deleted:
            what = f"Subject '{subject}' Version {found.version} was not deleted first before being permanently deleted"
            raise RegistryError(errors.VERSION_NOT_SOFT_DELETED, what)
        is_last = len(self._state.versions(subject)) == 1
        self._write([(found.key(), None), *(self._end(subject) if is_last else ())])
        return found.version

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions, softly unless ``permanent``; return their numbers. Raises RegistryError."""
        subject = self._alias(subject)
        versions = self._state.versions(subject)
        self._check_writable(subject)
        if not versions:
            raise errors.subject_not_found(subject)
        if not permanent and all(each.is_deleted for each in versions):
            what = f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
            raise RegistryError(errors.SUBJECT_SOFT_DELETED, what)
        gone = [each for each in versions if permanent or not each.is_deleted]
        for each in gone:
            self._check_unreferenced(each, permanent=permanent, but=subject)
        if not permanent:
            self._write([(delete_subject_key(subject), {"subject": subject, "version": gone[-1].version})])
        elif not all(each.is_deleted for each in gone):
            what = f"Subject '{subject}' was not deleted first before being permanently deleted"
            raise RegistryError(errors.SUBJECT_NOT_SOFT_DELETED, what)
        else:
            self._write([*((each.key(), None) for each in reversed(gone)), *self._end(subject)])
        return [each.version for each in gone]

    def _end(self, subject: str) -> list[tuple[Form, None]]:
        """Return the records that remove the settings of a subject without versions."""
        ended: list[tuple[Form, None]] = []
        if self._state.own_config(subject) is not None:
            ended.append((config_key(subject), None))
        if self._state.own_mode(subject) is not None:
            ended.append((mode_key(subject), None))
        return ended

    def _check_writable(self, subject: str) -> None:
        if self._state.mode(subject).startswith("READONLY"):
            raise errors.not_permitted(f"Subject {subject} in context {context_of(subject)} is in read-only mode")

    def _check_unreferenced(self, schema: StoredSchema, *, permanent: bool, but: str | None = None) -> None:
        referring = self._state.referring(schema.subject, schema.version)
        if any((permanent or not each.is_deleted) and each.subject != but for each in referring):
            key = f"{{magic=1,keytype=SCHEMA,subject={schema.subject},version={schema.version}}}"
            raise RegistryError(errors.REFERENCE_EXISTS, f"One or more references exist to the schema {key}.")

    # Settings

    def config(self, subject: str | None, *, in_scope: bool = False) -> Form:
        """Return a subject's own settings, or the effective ones with ``in_scope``. Raises RegistryError if it has no own ones."""
        own = self._state.own_config(subject)
        if subject is None or in_scope:
            return self._state.config(subject)
        if own is None:
            text = f"Subject '{subject}' does not have subject-level compatibility configured"
            raise RegistryError(errors.NO_SUBJECT_CONFIG, text)
        return dict(own)

    def set_config(self, subject: str | None, given: Mapping[str, Any]) -> Form:
        """Change a subject's settings, or those of all subjects; null removes one. Return the settings. Raises RegistryError."""
        _check_settable(subject)
        given = dict(given)
        if "compatibility" in given:
            given["compatibilityLevel"] = given.pop("compatibility")
        unknown = sorted(name for name, value in given.items() if name not in CONFIG_FIELDS and value is not None)
        if unknown:
            raise RegistryError(501, f"the settings {', '.join(unknown)} are not supported here, only {', '.join(CONFIG_FIELDS)}")
        level = given.get("compatibilityLevel")
        if level is not None:
            if str(level).upper() not in LEVELS:
                known = ", ".join(name.lower() for name in LEVELS)
                raise RegistryError(errors.INVALID_COMPATIBILITY, f"Invalid compatibility level. Valid values are {known}")
            given["compatibilityLevel"] = str(level).upper()
        try:
            checked_config(given)
        except ValueError as error:
            raise RegistryError(errors.UNPROCESSABLE, str(error)) from None
        merged = {**(self._state.own_config(subject) or {}), **given}
        merged = {name: value for name, value in merged.items() if value is not None}
        self._write([(config_key(subject), {**({} if subject is None else {"subject": subject}), **merged})])
        return merged

    def delete_config(self, subject: str | None) -> Form:
        """Remove a subject's settings; return them as they were. Raises RegistryError."""
        own = self._state.own_config(subject)
        if own is None and subject is not None:
            raise errors.subject_not_found(subject)
        was = self.config(subject)
        self._write([(config_key(subject), None)])
        return was

    def mode(self, subject: str | None, *, in_scope: bool = False) -> str:
        """Return a subject's own mode, or with ``in_scope`` the one that counts for it. Raises RegistryError if it has none."""
        own = self._state.own_mode(subject)
        if subject is None or in_scope:
            return self._state.mode(subject)
        if own is None:
            raise RegistryError(errors.NO_SUBJECT_MODE, f"Subject '{subject}' does not have subject-level mode configured")
        return own

    def set_mode(self, subject: str | None, mode: str, *, force: bool = False) -> str:
        """Set the mode of a subject or of all. IMPORT needs ``force`` if there are schemas. Raises RegistryError."""
        _check_settable(subject)
        mode = mode.upper()
        if mode not in MODES:
            raise RegistryError(errors.INVALID_MODE, f"Invalid mode. Valid values are {', '.join(MODES)}")
        if mode == "FORWARD" and subject is not None:
            raise RegistryError(errors.INVALID_MODE, "Forward mode only supported on global level")
        records: list[tuple[Form, Form | None]] = []
        if mode == "IMPORT" and self._state.mode(subject) != "IMPORT" and not force:
            records += self._emptied(subject)
        self._write([*records, (mode_key(subject), {**({} if subject is None else {"subject": subject}), "mode": mode})])
        return mode

    def _emptied(self, subject: str | None) -> list[tuple[Form, Form | None]]:
        """Return the records that remove deleted versions. Raises RegistryError if there are others."""
        names = [name for name in self._state.subjects() if subject is None or name == subject or _is_within(name, subject)]
        versions = [each for name in names for each in self._state.versions(name)]
        if not all(each.is_deleted for each in versions):
            raise errors.not_permitted("Cannot import since found existing subjects")
        for each in versions:
            self._check_unreferenced(each, permanent=True, but=each.subject)
        value = {} if subject is None else {"subject": subject}
        return [*((each.key(), None) for each in versions), (clear_subject_key(subject), value)]

    def delete_mode(self, subject: str | None) -> str:
        """Remove a subject's mode; return it. Raises RegistryError."""
        own = self._state.own_mode(subject)
        if own is None and subject is not None:
            raise errors.subject_not_found(subject)
        was = self.mode(subject)
        self._write([(mode_key(subject), None)])
        return was

    def _alias(self, subject: str) -> str:
        """Return the subject that a subject's settings name in its place."""
        alias = (self._state.own_config(subject) or {}).get("alias")
        return in_context(context_of(subject), alias) if alias else subject


def read_version(text: str) -> int:
    """Return the number of a version; -1 for the latest one. Raises RegistryError."""
    if text in (LATEST, "-1"):
        return -1
    if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= MAX_VERSION:
        raise errors.invalid_version(text)
    return int(text)


def _later(parse: Callable[[StoredSchema], ParsedSchema], schema: StoredSchema) -> Callable[[], ParsedSchema]:
    return lambda: parse(schema)


def _has_prefix(name: str, prefix: str) -> bool:
    if prefix.startswith(EVERYWHERE):
        return name.removeprefix(in_context(context_of(name), "")).startswith(prefix.removeprefix(EVERYWHERE))
    return context_of(name) == context_of(prefix) and name.startswith(prefix)


def _is_within(name: str, context: str) -> bool:
    return is_context(context) and context_of(name) == context_of(context)


def _check_settable(subject: str | None) -> None:
    if subject is not None and not is_valid(subject):
        raise RegistryError(errors.INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid.")


def _property(metadata: Mapping[str, Any] | None, name: str) -> Any:
    return ((metadata or {}).get("properties") or {}).get(name)


def _merged(*parts: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return metadata or rules with those of later parts added: by name in objects, one after the other in lists of rules."""
    given = [part for part in parts if part is not None]
    if len(given) < 2:
        return given[0] if given else None
    merged: dict[str, Any] = {}
    for part in given:
        for name, value in part.items():
            before = merged.get(name)
            if isinstance(before, dict) and isinstance(value, dict):
                merged[name] = {**before, **value}
            elif isinstance(before, list) and isinstance(value, list):
                named = {_name(each): each for each in (*before, *value)}
                merged[name] = list(named.values())
            else:
                merged[name] = value
    return merged


def _name(each: Any) -> str:
    return str(each.get("name")) if isinstance(each, Mapping) else str(each)
