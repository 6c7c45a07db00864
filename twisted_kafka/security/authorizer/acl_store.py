"""The ACLs in the metadata store, in Kafka's layout, so that either broker reads the other's (Kafka: ZkAclStore).

``/kafka-acl/<Type>/<name>`` has the entries of a literal pattern, ``/kafka-acl-extended/prefixed/<Type>/<name>`` those of a
prefixed one. A notification below ``/kafka-acl-changes`` or ``/kafka-acl-extended-changes`` names each pattern that changed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metadata.change_notifications import ChangeNotifications
from twisted_kafka.metadata.store import (
    BadVersionError,
    Create,
    Delete,
    IMetadataStore,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    StoreError,
    check_path,
)
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes_admin import AclChangeNode, AclEntry, AclNode
from twisted_kafka.protocol.errors import InvalidRequestError, KafkaError, UnknownServerError
from twisted_kafka.security.authorizer.acl_binding import AccessControlEntry, ResourcePattern
from twisted_kafka.security.authorizer.acl_index import NO_ENTRIES, Entries
from twisted_kafka.security.authorizer.acl_types import (
    SUPPORTED_OPERATIONS,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from twisted_kafka.timing.clock import IClock

ROOTS: Final[Mapping[PatternType, str]] = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
CHANGES: Final[Mapping[PatternType, str]] = {
    PatternType.LITERAL: "/kafka-acl-changes",
    PatternType.PREFIXED: "/kafka-acl-extended-changes",
}
_CHANGE_PREFIX: Final = "acl_changes_"

UPDATES_MAX: Final = 15
"""How often a write is tried that another broker's comes before. (Kafka: AclAuthorizer.maxUpdateRetries)"""

_READ_AT_ONCE: Final = 1000

_OPERATIONS: Final = {each.title: each for each in AclOperation}
_PERMISSIONS: Final = {each.title: each for each in PermissionType}
_OVERTAKEN: Final = (BadVersionError, NodeExistsError, NoNodeError)

Change = Callable[[Entries], Entries]
"""Returns a pattern's new entries, given the present ones. May be called several times."""

_log = Logger()


class AclStoreError(StoreError):
    """ACLs cannot be read; the message names the node."""


class AclStore:
    """Reads and writes ACLs, and follows their changes."""

    def __init__(self, store: IMetadataStore, clock: IClock) -> None:
        self._store = store
        self._clock = clock
        self._following: list[ChangeNotifications] = []

    def prepare(self) -> None:
        """Create the nodes that have no data, if they are missing."""
        for pattern_type, root in ROOTS.items():
            for path in (CHANGES[pattern_type], *(f"{root}/{each.title}" for each in SUPPORTED_OPERATIONS)):
                if self._store.exists(path) is None:
                    try:
                        self._store.create(path, make_parents=True)
                    except NodeExistsError:  # another broker has created it
                        continue

    def follow(self, changed: Callable[[ResourcePattern], None]) -> None:
        """Call ``changed`` on the watch thread for each pattern that changes from now on."""

        def received(data: bytes) -> None:
            try:
                pattern = _changed_pattern(data)
            except (BadNodeError, KeyError) as error:
                _log.error("A notification of changed ACLs is invalid and is ignored: {error}", error=error)
                return
            changed(pattern)

        for path in CHANGES.values():
            one = ChangeNotifications(self._store, self._clock, path, received, lambda action: action())
            self._following.append(one)
            one.startup()

    def shutdown(self) -> None:
        """Stop following changes."""
        for each in self._following:
            each.shutdown()

    def load(self) -> Iterator[list[tuple[ResourcePattern, Entries]]]:
        """Yield all patterns with their entries; the store is read piece by piece during the iteration.

        Raises AclStoreError: with some entries missing, no client may be allowed anything.
        """
        for pattern_type, root in ROOTS.items():
            for resource_type in SUPPORTED_OPERATIONS:
                names = self._store.children(f"{root}/{resource_type.title}")
                for start in range(0, len(names), _READ_AT_ONCE):
                    patterns = [ResourcePattern(resource_type, name, pattern_type) for name in names[start : start + _READ_AT_ONCE]]
                    found = self._store.get_many([path_of(each) for each in patterns])
                    yield [
                        (pattern, _entries(pattern, node[0]))
                        for pattern, node in zip(patterns, found, strict=True)
                        if node is not None
                    ]

    def read(self, pattern: ResourcePattern) -> Entries:
        """Return a pattern's entries. Raises AclStoreError."""
        found = self._store.get(path_of(pattern))
        return NO_ENTRIES if found is None else _entries(pattern, found[0])

    def update(self, changes: Mapping[ResourcePattern, Change]) -> dict[ResourcePattern, Entries | KafkaError]:
        """Change each pattern's entries, independently of the others. Return the new entries, or the error of a failed change.

        If another broker changed a pattern first, the change is repeated with the new entries.
        """
        results: dict[ResourcePattern, Entries | KafkaError] = {}
        left = dict(changes)
        for pattern in changes:
            problem = _name_problem(pattern)
            if problem is not None:
                results[pattern] = problem
                del left[pattern]
        for _ in range(UPDATES_MAX):
            if not left:
                break
            self._try_update(left, results)
            left = {pattern: change for pattern, change in left.items() if pattern not in results}
        for pattern in left:
            results[pattern] = UnknownServerError(
                f"ACLs of {path_of(pattern)} keep being changed: gave up after {UPDATES_MAX} tries"
            )
        return results

    def _try_update(self, left: Mapping[ResourcePattern, Change], results: dict[ResourcePattern, Entries | KafkaError]) -> None:
        """Try each change once, and add it to the results if it succeeds or fails for good."""
        written: list[tuple[ResourcePattern, Entries]] = []
        groups: list[Sequence[Operation]] = []
        found = self._store.get_many([path_of(each) for each in left])
        for (pattern, change), node in zip(left.items(), found, strict=True):
            try:
                before = NO_ENTRIES if node is None else _entries(pattern, node[0])
            except AclStoreError as error:
                results[pattern] = UnknownServerError(str(error))
                continue
            entries = change(before)
            if entries == before:
                results[pattern] = before
                continue
            written.append((pattern, entries))
            groups.append([_operation(pattern, entries, None if node is None else node[1].version), _notification(pattern)])
        for (pattern, entries), outcome in zip(written, self._store.batch(groups) if groups else (), strict=True):
            if not isinstance(outcome, StoreError):
                results[pattern] = entries
            elif not isinstance(outcome, _OVERTAKEN):
                results[pattern] = UnknownServerError(str(outcome))


def path_of(pattern: ResourcePattern) -> str:
    """Return the path of a pattern's node."""
    return f"{ROOTS[pattern.pattern_type]}/{pattern.resource_type.title}/{pattern.name}"


def _name_problem(pattern: ResourcePattern) -> KafkaError | None:
    """Return the error of a name that cannot be a node's."""
    try:
        check_path(path_of(pattern))
    except InvalidPathError as error:
        return InvalidRequestError(str(error))
    return (
        InvalidRequestError(f"The name of a resource with ACLs must not have a slash: {pattern.name!r}")
        if "/" in pattern.name
        else None
    )


def _operation(pattern: ResourcePattern, entries: Entries, version: int | None) -> Operation:
    path = path_of(pattern)
    if not entries:
        assert version is not None
        return Delete(path, version)
    acls = [AclEntry(each.principal, each.permission_type.title, each.host, each.operation.title) for each in sorted(entries)]
    data = AclNode(acls).encode()
    return Create(path, data) if version is None else Set(path, data, version)


def _notification(pattern: ResourcePattern) -> Operation:
    data = AclChangeNode(pattern.resource_type.name, pattern.name, pattern.pattern_type.name).encode()
    return Create(f"{CHANGES[pattern.pattern_type]}/{_CHANGE_PREFIX}", data, sequence=True)


def _entries(pattern: ResourcePattern, data: bytes) -> Entries:
    try:
        return frozenset(
            AccessControlEntry(each.principal, each.host, _OPERATIONS[each.operation], _PERMISSIONS[each.permission_type])
            for each in AclNode.decode(data).acls
        )
    except (BadNodeError, KeyError) as error:
        raise AclStoreError(f"{path_of(pattern)} has no valid ACLs: {error}") from error


def _changed_pattern(data: bytes) -> ResourcePattern:
    node = AclChangeNode.decode(data)
    return ResourcePattern(ResourceType[node.resource_type], node.name, PatternType[node.pattern_type])
