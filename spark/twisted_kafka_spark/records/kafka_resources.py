"""The resources of a request in Apache Kafka's request log besides topics: a group with a member, and more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MAX_RESOURCES = 100
"""Most resources in a record, as in this broker's own log."""

_GENERATIONS = ("generationIdOrMemberEpoch", "generationId", "memberEpoch")
_ADMINISTERED = ("groups", "groupsNames", "groupIds")
_CONFIG_TYPES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
_ACL_TYPES = {1: "any", 2: "topic", 3: "group", 4: "cluster", 5: "transactional-id", 6: "delegation-token", 7: "user"}
_COORDINATOR_TYPES = {0: "group", 1: "transactional-id", 2: "group"}
_CONFIG_APIS = ("DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs")
_QUOTA_TYPES = ("user", "client-id", "ip")
Resource = tuple[str, str | None]


def group(api: str, request: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    """Return the fields `group_id`, `member_id` and `generation` of a request; those it does not name are missing.

    A JoinGroup has the member and the generation that it was answered with.
    """
    named = request
    groups = request.get("groups")
    if api == "OffsetFetch" and groups and len(groups) == 1:
        named = groups[0]
    group_id = named.get("groupId")
    if group_id is None:
        return {}
    members: list[dict[str, Any]] = named.get("members") or []
    if api == "JoinGroup":
        named = {
            **named,
            "memberId": response.get("memberId") or named.get("memberId"),
            "generationId": response.get("generationId"),
        }
    elif len(members) == 1:
        named = members[0]
    generation = next((named[name] for name in _GENERATIONS if name in named), None)
    found = {"group_id": group_id, "member_id": named.get("memberId") or None, "generation": generation}
    if generation is None or generation < 0:
        del found["generation"]
    return found


def resources(api: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the fields `resources` and `resources_left_out`; none if the request names no resource."""
    found = [{"type": kind, "name": name} for kind, name in dict.fromkeys(_resources(api, request))]
    if not found:
        return {}
    left_out = len(found) - MAX_RESOURCES
    return {"resources": found[:MAX_RESOURCES], "resources_left_out": left_out if left_out > 0 else None}


def _resources(api: str, request: dict[str, Any]) -> Iterator[Resource]:
    if api in _CONFIG_APIS:
        yield from _known(_CONFIG_TYPES, request.get("resources"), "resourceType", "resourceName")
    elif api == "FindCoordinator":
        kind = _COORDINATOR_TYPES.get(request.get("keyType", 0), "any")
        keys = request.get("coordinatorKeys") or [request.get("key")]
        yield from ((kind, key) for key in keys if key is not None)
    elif api in ("DescribeGroups", "DeleteGroups", "ConsumerGroupDescribe"):
        yield from (("group", each) for name in _ADMINISTERED for each in request.get(name) or ())
    elif api == "OffsetFetch" and len(request.get("groups") or ()) > 1:
        yield from (("group", each.get("groupId")) for each in request["groups"])
    elif api == "CreateAcls":
        yield from _known(_ACL_TYPES, request.get("creations"), "resourceType", "resourceName")
    elif api in ("DescribeAcls", "DeleteAcls"):
        yield from _known(_ACL_TYPES, request.get("filters") or [request], "resourceTypeFilter", "resourceNameFilter")
    elif api == "AlterClientQuotas":
        parts = (part for entry in request.get("entries") or () for part in entry.get("entity") or ())
        yield from (_quota(part.get("entityType"), part.get("entityName")) for part in parts)
    elif api == "DescribeClientQuotas":
        yield from (_quota(part.get("entityType"), part.get("match")) for part in request.get("components") or ())
    elif api == "DescribeUserScramCredentials":
        yield from (("user", f"User:{each['name']}") for each in request.get("users") or ())
    elif api == "AlterUserScramCredentials":
        changed = (each for name in ("upsertions", "deletions") for each in request.get(name) or ())
        yield from (("user", f"User:{each['name']}") for each in changed)
    elif api == "DescribeTransactions":
        yield from (("transactional-id", each) for each in request.get("transactionalIds") or ())
    elif api == "UpdateFeatures":
        yield from (("feature", each.get("feature")) for each in request.get("featureUpdates") or ())
    elif api in ("ControlledShutdown", "BrokerHeartbeat", "BrokerRegistration", "UnregisterBroker") and "brokerId" in request:
        yield "broker", str(request["brokerId"])


def _known(kinds: dict[int, str], parts: Any, kind: str, name: str) -> Iterator[Resource]:
    return ((kinds[part[kind]], part.get(name) or None) for part in parts or () if part.get(kind) in kinds)


def _quota(kind: Any, name: Any) -> Resource:
    return (kind if kind in _QUOTA_TYPES else "any"), (f"User:{name}" if kind == "user" and name else name)
