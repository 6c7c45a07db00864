"""AclAuthorizer: decides with ACLs that are kept in the metadata store (Kafka: AclAuthorizer).

A super user may do everything. For everybody else an entry that denies goes before any that allows; what no entry is about is
denied, unless ``allow.everyone.if.no.acl.found``. Read, Write, Delete and Alter allow Describe, AlterConfigs allows
DescribeConfigs; an entry that denies them denies only them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.store import IMetadataStore, StoreClosedError
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import InvalidRequestError, KafkaError
from twisted_kafka.security.authorizer.acl_binding import AclBinding, AclBindingFilter, ResourcePattern
from twisted_kafka.security.authorizer.acl_index import AclIndex, Decisions, Entries
from twisted_kafka.security.authorizer.acl_store import AclStore, AclStoreError, Change
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.security.authorizer.audit_log import AuditLog
from twisted_kafka.security.authorizer.interfaces import Action, DeletedAcls, IAuthorizer
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"

REMEMBERED_MAX: Final = 10_000
"""Most permissions that are remembered. Beyond it, all are dropped: they are cheap to find again."""

REMEMBERED_NAME_MAX: Final = 256
"""Longest name of a resource that is remembered. Clients choose the names of groups, up to 32 KiB."""

REMEMBERED_AT_ONCE_MAX: Final = 1000
"""A call with more actions remembers nothing: one request for all topics must not displace everything else."""

_Asked = tuple[KafkaPrincipal, str, AclOperation, ResourceType, str]

_log = Logger()


@implementer(IAuthorizer)
class AclAuthorizer:
    """The authorizer for ACLs. Decisions take no lock."""

    def __init__(self, store: IMetadataStore, clock: IClock, audit: AuditLog) -> None:
        self._store = AclStore(store, clock)
        self._audit = audit
        self._index = AclIndex()
        self._super_users: frozenset[tuple[str, str]] = frozenset()
        self._allows_others = False
        self.generation = 0
        """Grows with each change of ACLs: a decision holds until then."""
        self._remembered: set[_Asked] = set()  # permissions only: a client without any cannot fill it
        # Held from reading a pattern's entries to replacing them in the index: older entries never replace newer ones.
        self._lock = machine.Lock()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings and all ACLs, and follow their changes. Raises ConfigError, AclStoreError."""
        self._super_users = parse_super_users(configs.get(SUPER_USERS, ""))
        self._allows_others = parse_allow_everyone(configs.get(ALLOW_EVERYONE, "false"))
        self._store.prepare()
        self._store.follow(self._changed)
        pieces = self._store.load()
        while self._load_piece(pieces):
            pass
        self._remembered = set()

    def _load_piece(self, pieces: Iterator[list[tuple[ResourcePattern, Entries]]]) -> bool:
        """Read a piece of the ACLs into the index, with no change in between. Return False after the last piece."""
        with self._lock:
            piece = next(pieces, None)
            for pattern, entries in piece or ():
                self._index.replace(pattern, entries)
        return piece is not None

    def close(self) -> None:
        """Stop following changes."""
        self._store.shutdown()

    # Decisions

    def remembers(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether the operation was allowed before and still is, and there is nothing to log: the cheapest answer."""
        connection = context.connection
        asked = (connection.principal, connection.client_address, operation, resource_type, name)
        return asked in self._remembered and not self._audit.logs_allowed

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        """Decide (``IAuthorizer``)."""
        audit = self._audit
        connection = context.connection
        principal, host = connection.principal, connection.client_address
        # Taken before the index is read: a change replaces it after the index, so no permission outlives its ACLs.
        remembered = self._remembered
        remembers = len(actions) <= REMEMBERED_AT_ONCE_MAX
        is_super_user = principal[:2] in self._super_users
        allows_others = self._allows_others
        decisions: Decisions | None = None
        results = []
        for operation, resource_type, name, logs_denied in actions:
            asked = (principal, host, operation, resource_type, name)
            allowed = remembers and asked in remembered
            if not allowed:
                allowed = is_super_user
                if not is_super_user:
                    if decisions is None:
                        decisions = self._index.decisions(str(principal), host)
                    found = decisions.decide(operation, resource_type, name)
                    allowed = allows_others if found is None else found
                if allowed and remembers and len(name) <= REMEMBERED_NAME_MAX:
                    if len(remembered) >= REMEMBERED_MAX:
                        remembered.clear()
                    remembered.add(asked)
            if not allowed:
                if logs_denied:
                    audit.denied(context, operation, resource_type, name)
            elif audit.logs_allowed:
                audit.allowed(context, operation, resource_type, name)
            results.append(allowed)
        return results

    def authorize_by_resource_type(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Decide (``IAuthorizer``)."""
        principal, host = context.principal, context.client_address
        allowed = principal[:2] in self._super_users or self._index.decide_by_type(
            str(principal), host, operation, resource_type, allows_others=self._allows_others
        )
        if not allowed:
            self._audit.denied(context, operation, resource_type, "some")
        elif self._audit.logs_allowed:
            self._audit.allowed(context, operation, resource_type, "some")
        return allowed

    # ACLs

    def acls(self, filter: AclBindingFilter) -> Iterable[AclBinding]:  # noqa: A002 the interface's word
        """Return the bindings that the filter selects, by pattern."""
        return [
            AclBinding(pattern, entry)
            for pattern, entries in self._index.patterns()
            if filter.matches_pattern(pattern)
            for entry in entries
            if filter.matches_entry(entry)
        ]

    def create_acls(self, context: RequestContext, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Create each binding (``IAuthorizer``)."""
        errors: list[KafkaError | None] = [_entry_problem(each) for each in bindings]
        added: dict[ResourcePattern, set[int]] = {}
        for position, binding in enumerate(bindings):
            if errors[position] is None:
                added.setdefault(binding.pattern, set()).add(position)

        def change_of(positions: set[int]) -> Change:
            return lambda entries: entries | {bindings[each].entry for each in positions}

        results = self._update({pattern: change_of(positions) for pattern, positions in added.items()})
        for pattern, positions in added.items():
            failure = results[pattern]
            if isinstance(failure, KafkaError):
                for position in positions:
                    errors[position] = failure
        return errors

    def delete_acls(self, context: RequestContext, filters: Sequence[AclBindingFilter]) -> list[DeletedAcls]:
        """Delete what each filter selects (``IAuthorizer``)."""
        selected: dict[ResourcePattern, dict[AclBinding, int]] = {}

        def change_of(pattern: ResourcePattern, indexes: Sequence[int]) -> Change:
            def change(entries: Entries) -> Entries:
                by = selected[pattern] = {}
                for entry in entries:
                    at = next((index for index in indexes if filters[index].matches_entry(entry)), None)
                    if at is not None:
                        by[AclBinding(pattern, entry)] = at
                return entries - {binding.entry for binding in by}

            return change

        changes = {}
        for pattern, _ in self._index.patterns():
            indexes = [index for index, each in enumerate(filters) if each.matches_pattern(pattern)]
            if indexes:
                changes[pattern] = change_of(pattern, indexes)
        results = self._update(changes)
        deleted: list[list[tuple[AclBinding, KafkaError | None]]] = [[] for _ in filters]
        for pattern, by in selected.items():
            result = results[pattern]
            failure = result if isinstance(result, KafkaError) else None
            for binding, index in by.items():
                deleted[index].append((binding, failure))
        return [DeletedAcls(each) for each in deleted]

    def _update(self, changes: Mapping[ResourcePattern, Change]) -> dict[ResourcePattern, Entries | KafkaError]:
        with self._lock:
            results = self._store.update(changes)
            for pattern, result in results.items():
                if not isinstance(result, KafkaError):
                    self._index.replace(pattern, result)
            self._forget_permissions()
        return results

    def _changed(self, pattern: ResourcePattern) -> None:
        """Take over a change that a broker made."""
        with self._lock:
            try:
                has_changed = self._index.replace(pattern, self._store.read(pattern))
            except StoreClosedError:
                return
            except AclStoreError as error:
                _log.error(
                    "Cannot read changed ACLs of {pattern}; the former ones stay in use: {error}", pattern=pattern, error=error
                )
                return
            if has_changed:
                self._forget_permissions()

    def _forget_permissions(self) -> None:
        self._remembered = set()
        self.generation += 1


def parse_super_users(text: str) -> frozenset[tuple[str, str]]:
    """Return the type and name of each principal of a list that semicolons separate. Raises ConfigError."""
    users = set()
    for each in text.split(";"):
        if each.strip():
            try:
                users.add(KafkaPrincipal.parse(each.strip())[:2])
            except ValueError as error:
                raise ConfigError(f"Invalid value {text!r} for {SUPER_USERS}: {error}") from None
    return frozenset(users)


def parse_allow_everyone(text: str) -> bool:
    """Return the value of ``allow.everyone.if.no.acl.found``. Raises ConfigError."""
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        raise ConfigError(f"Invalid value {text!r} for {ALLOW_EVERYONE}: must be true or false")
    return found


def _entry_problem(binding: AclBinding) -> KafkaError | None:
    try:
        KafkaPrincipal.parse(binding.entry.principal)
    except ValueError as error:
        return InvalidRequestError(str(error))
    return None
