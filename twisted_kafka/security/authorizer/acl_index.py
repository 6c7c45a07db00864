"""The ACLs in memory, arranged so that a decision looks at few of them however many there are.

Entries are found by pattern and principal. The prefixed patterns of a name are looked up by length: one lookup for each length
that occurs. One thread at a time changes the index. Other threads may read during a change, because entries are replaced as a
whole.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from twisted_kafka.security.authorizer.acl_binding import AccessControlEntry, ResourcePattern
from twisted_kafka.security.authorizer.acl_hosts import is_in_network, is_network, normal_host
from twisted_kafka.security.authorizer.acl_types import (
    IMPLYING,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from twisted_kafka.system import machine

Entries = frozenset[AccessControlEntry]

NO_ENTRIES: Final[Entries] = frozenset()

_ByPrincipal = Mapping[str, tuple[AccessControlEntry, ...]]
_TypeKey = tuple[ResourceType, PermissionType, str, str, AclOperation]


class AclIndex:
    """All ACLs. A pattern without entries is not kept."""

    def __init__(self) -> None:
        self._entries: dict[ResourcePattern, Entries] = {}
        self._literal: dict[ResourceType, dict[str, _ByPrincipal]] = {each: {} for each in ResourceType}
        self._prefixed: dict[ResourceType, dict[str, _ByPrincipal]] = {each: {} for each in ResourceType}
        self._length_counts: dict[ResourceType, dict[int, int]] = {each: {} for each in ResourceType}
        self._lengths: dict[ResourceType, tuple[int, ...]] = dict.fromkeys(ResourceType, ())
        self._by_type: dict[_TypeKey, tuple[set[str], set[str]]] = {}
        self._networks: Counter[str] = Counter()
        """The networks that are hosts of keys of ``_by_type``, and of how many."""
        self._lock = machine.Lock()

    def __len__(self) -> int:
        """The number of patterns."""
        return len(self._entries)

    def entries(self, pattern: ResourcePattern) -> Entries:
        """Return a pattern's entries."""
        return self._entries.get(pattern, NO_ENTRIES)

    def patterns(self) -> list[tuple[ResourcePattern, Entries]]:
        """Return all patterns with their entries."""
        with self._lock:
            return list(self._entries.items())

    def replace(self, pattern: ResourcePattern, entries: Entries) -> bool:
        """Replace a pattern's entries; return whether they differ from those before."""
        with self._lock:
            before = self._entries.get(pattern, NO_ENTRIES)
            if before == entries:
                return False
            if entries:
                self._entries[pattern] = entries
            else:
                del self._entries[pattern]
            self._replace_in_table(pattern, entries, is_new=not before)
            self._replace_by_type(pattern, before, entries)
            return True

    def _replace_in_table(self, pattern: ResourcePattern, entries: Entries, *, is_new: bool) -> None:
        resource_type, name, pattern_type = pattern
        is_prefixed = pattern_type is PatternType.PREFIXED
        table = (self._prefixed if is_prefixed else self._literal)[resource_type]
        if entries:
            by_principal: dict[str, list[AccessControlEntry]] = {}
            for entry in entries:
                by_principal.setdefault(entry.principal, []).append(entry._replace(host=normal_host(entry.host)))
            table[name] = {principal: tuple(found) for principal, found in by_principal.items()}
        else:
            del table[name]
        change = bool(entries) - (not is_new)
        if is_prefixed and change:
            self._count_length(resource_type, len(name), change)

    def _count_length(self, resource_type: ResourceType, length: int, change: int) -> None:
        counts = self._length_counts[resource_type]
        counts[length] = counts.get(length, 0) + change
        if not counts[length]:
            del counts[length]
        self._lengths[resource_type] = tuple(sorted(counts))

    def _replace_by_type(self, pattern: ResourcePattern, before: Entries, entries: Entries) -> None:
        resource_type, name, pattern_type = pattern
        at = int(pattern_type is PatternType.PREFIXED)
        # Keys, not entries: two entries may write the same host in different ways.
        old, new = ({_type_key(resource_type, entry) for entry in each} for each in (before, entries))
        for key in old - new:
            names = self._by_type[key]
            names[at].remove(name)
            if not names[0] and not names[1]:
                del self._by_type[key]
                self._count_network(key[3], -1)
        for key in new - old:
            if key not in self._by_type:
                self._by_type[key] = set(), set()
                self._count_network(key[3], 1)
            self._by_type[key][at].add(name)

    def _count_network(self, host: str, change: int) -> None:
        if is_network(host):
            self._networks[host] += change
            if not self._networks[host]:
                del self._networks[host]

    def decisions(self, principal: str, host: str) -> "Decisions":
        """Return what decides for one principal at one host, for one request."""
        return Decisions(principal, normal_host(host), self._literal, self._prefixed, self._lengths)

    def decide(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool | None:
        """Return whether the entries allow the operation; None if no entry is about the resource."""
        return self.decisions(principal, host).decide(operation, resource_type, name)

    def decide_by_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, *, allows_others: bool
    ) -> bool:
        """Return whether the operation is allowed on some resource of the type. (Kafka: AclAuthorizer.authorizeByResourceType.)

        ``allows_others``: resources that no entry is about are allowed.
        """
        host = normal_host(host)
        with self._lock:
            denied = self._named(principal, host, operation, resource_type, PermissionType.DENY)
            if any(WILDCARD in literal for literal, _ in denied):
                return False
            if allows_others:
                return True
            allowed = self._named(principal, host, operation, resource_type, PermissionType.ALLOW)
            return any(
                any(not _is_denied(name, is_prefix=False, denied=denied) for name in literal)
                or any(not _is_denied(name, is_prefix=True, denied=denied) for name in prefixed)
                for literal, prefixed in allowed
            )

    def _named(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, permission: PermissionType
    ) -> list[tuple[set[str], set[str]]]:
        """Return the literal and the prefixed names in entries that apply."""
        networks = [each for each in self._networks if is_in_network(host, each)]
        found = (
            self._by_type.get((resource_type, permission, who, where, what))
            for who in (principal, WILDCARD_PRINCIPAL)
            for where in (host, WILDCARD, *networks)
            for what in (operation, AclOperation.ALL)
        )
        return [each for each in found if each is not None]


class Decisions:
    """Decides for one principal at one host. It looks at a pattern's entries once, however many resources the pattern matches.

    A denial goes before any permission. Entries of other principals and hosts are about the resource, too.
    """

    def __init__(
        self,
        principal: str,
        host: str,
        literal: Mapping[ResourceType, Mapping[str, _ByPrincipal]],
        prefixed: Mapping[ResourceType, Mapping[str, _ByPrincipal]],
        lengths: Mapping[ResourceType, tuple[int, ...]],
    ) -> None:
        """``host`` is in its normal form. The tables are those of the index, which may change meanwhile."""
        self._principals = principal, WILDCARD_PRINCIPAL
        self._host = host
        self._tables = literal, prefixed, lengths
        self._asked: tuple[AclOperation, ResourceType] | None = None
        self._verdicts: dict[int, tuple[_ByPrincipal, bool | None]] = {}
        """By the identity of a pattern's entries, which therefore stay in memory: denied, allowed, or None for neither."""

    def decide(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool | None:
        """Return whether the entries allow the operation; None if no entry is about the resource."""
        asked = self._asked
        if asked is None or asked[0] is not operation or asked[1] is not resource_type:
            self._turn_to(operation, resource_type)
        is_known = is_allowed = False
        for found in self._matching(name):
            is_known = True
            verdict = self._verdict(found)
            if verdict is False:
                return False
            is_allowed = is_allowed or bool(verdict)
        return is_allowed if is_known else None

    def _turn_to(self, operation: AclOperation, resource_type: ResourceType) -> None:
        self._asked = operation, resource_type
        self._verdicts.clear()
        literal, prefixed, lengths = self._tables
        self._literal, self._prefixed, self._lengths = literal[resource_type], prefixed[resource_type], lengths[resource_type]

    def _matching(self, name: str) -> list[_ByPrincipal]:
        """Return the entries of each pattern that matches a resource, by principal."""
        found = []
        literal, prefixed = self._literal, self._prefixed
        if literal:
            found = [each for each in (literal.get(name), literal.get(WILDCARD)) if each is not None]
        for length in self._lengths:
            if length > len(name):
                break
            by_principal = prefixed.get(name[:length])
            if by_principal is not None:
                found.append(by_principal)
        return found

    def _verdict(self, by_principal: _ByPrincipal) -> bool | None:
        known = self._verdicts.get(id(by_principal))
        if known is None:
            known = self._verdicts[id(by_principal)] = by_principal, self._judged(by_principal)
        return known[1]

    def _judged(self, by_principal: _ByPrincipal) -> bool | None:
        """Return False if an entry denies the operation, True if one allows it, and None otherwise."""
        assert self._asked is not None
        operation = self._asked[0]
        implying = IMPLYING[operation]
        verdict = None
        for who in self._principals:
            for entry in by_principal.get(who, ()):
                if entry.host not in (WILDCARD, self._host) and not (
                    is_network(entry.host) and is_in_network(self._host, entry.host)
                ):
                    continue
                if entry.permission_type is not PermissionType.ALLOW:
                    if entry.operation in (operation, AclOperation.ALL):
                        return False
                elif entry.operation in implying:
                    verdict = True
        return verdict


def _type_key(resource_type: ResourceType, entry: AccessControlEntry) -> _TypeKey:
    return resource_type, entry.permission_type, entry.principal, normal_host(entry.host), entry.operation


def _is_denied(name: str, *, is_prefix: bool, denied: Iterable[tuple[set[str], set[str]]]) -> bool:
    """Whether all resources that a pattern allows are denied; all resources together are never denied by prefixes."""
    if name == WILDCARD and not is_prefix:
        return False
    return any(
        (not is_prefix and name in literal) or any(name[:length] in prefixed for length in range(1, len(name) + 1))
        for literal, prefixed in denied
    )
