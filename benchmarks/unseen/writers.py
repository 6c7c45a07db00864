"""Write requests as lines of this broker's access log, or of Apache Kafka's request log: 2.8 and later, or as JSON of a layout."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from benchmarks.unseen.world import Part, Request
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors.base import ErrorCode
from twisted_kafka_spark.records.schema import PHASES

DATE = "2026-04-14"
_MIDNIGHT = datetime.datetime.fromisoformat(f"{DATE}T00:00:00+00:00")
_OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Alter": 7, "Describe": 8, "AlterConfigs": 11, "All": 2}
_RESOURCES = {"topic": 2, "broker": 4, "group": 3, "cluster": 4, "transactional-id": 5, "broker-logger": 8}
Body = dict[str, Any]


def api_key(api: str) -> int:
    name = "".join("_" + letter if letter.isupper() else letter.upper() for letter in api).lstrip("_").upper()
    return int(ApiKey[name])


@cache
def code_of(error: str | None) -> int:
    return 0 if error is None else int(ErrorCode[error])


@cache
def topic_id(topic: str) -> str:
    return base64.urlsafe_b64encode(hashlib.md5(topic.encode()).digest()).decode().rstrip("=")


def _at(seconds: float) -> datetime.datetime:
    return _MIDNIGHT + datetime.timedelta(seconds=seconds)


def _connection(request: Request, draw: random.Random) -> str:
    port = request.port or request.client.port(request.node, draw)
    return f"10.0.0.{request.node}:9092-{request.client.host}:{port}-{port % 97}"


def own_lines(requests: Iterable[Request], draw: random.Random) -> Iterator[str]:
    """Yield lines of this broker's log."""
    sequences: dict[int, int] = {}
    for request in requests:
        node = request.node
        sequences[node] = sequences.get(node, 0) + 1
        yield json.dumps(_own(request, _connection(request, draw), sequences[node])) + "\n"


def _own(request: Request, connection: str, sequence: int) -> Body:
    phases = request.queue_us, request.local_us, request.remote_us, request.throttle_us, request.response_queue_us, request.send_us
    client = request.client
    line: Body = {
        "v": 2,
        "time": _at(request.at).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "node": request.node,
        "listener": request.listener,
        "protocol": "PLAINTEXT" if client.principal == "User:ANONYMOUS" else "SASL_SSL",
        "connection": connection,
        "principal": client.principal,
        "client_id": client.client_id,
        "software": client.software,
        "software_version": client.software_version,
        "api": request.api,
        "api_key": api_key(request.api),
        "version": request.version,
        "correlation_id": sequence % 10_000,
        "request_bytes": request.request_bytes,
        "response_bytes": request.response_bytes,
    }
    line.update(zip(PHASES, phases, strict=True))
    line["total_us"] = sum(phases)
    line["error"] = _error(request)
    line["topics"] = [
        {
            "topic": part.topic,
            "partitions": max(1, len(part.partitions)),
            "records": part.records,
            "bytes": part.bytes,
            "error": part.error,
            **({"partition_ids": list(part.partitions[:20])} if part.partitions else {}),
        }
        for part in request.parts
    ]
    if request.api == "Produce":
        line["acks"] = request.acks
    if request.group is not None:
        line["group_id"] = request.group
        if request.member is not None:
            line["member_id"] = request.member
            line["generation"] = request.generation
    if request.resources:
        line["resources"] = [{"type": kind, "name": name} for kind, name in request.resources]
    if request.denied is not None:
        kind, name, operation = request.denied
        line["decisions"] = [{"type": kind, "name": name, "operation": operation, "allowed": False}]
    if request.transaction is not None:
        line["transaction"] = request.transaction
    line["sequence"] = sequence
    return line


def _error(request: Request) -> str | None:
    return request.error or next((part.error for part in request.parts if part.error), None)


def kafka_lines(requests: Iterable[Request], draw: random.Random, as_json: bool) -> Iterator[str]:
    """Yield lines of Kafka's request log, as a pattern layout or a JSON layout writes them."""
    for number, request in enumerate(requests):
        if request.api == "" or request.node == 0:
            continue
        body = json.dumps(_kafka(request, _connection(request, draw), number), separators=(",", ":"))
        at = _at(request.at)
        if as_json:
            stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            layout = {
                "timestamp": stamp,
                "level": "DEBUG",
                "loggerName": "kafka.request.logger",
                "message": f"Completed request:{body}",
            }
            yield json.dumps(layout) + "\n"
        else:
            yield f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}] DEBUG Completed request:{body} (kafka.request.logger)\n"


def _kafka(request: Request, connection: str, number: int) -> Body:
    total = (
        request.queue_us + request.local_us + request.remote_us + request.throttle_us + request.response_queue_us + request.send_us
    )
    client = request.client
    asked, answered = _BODIES.get(request.api, _plain)(request)
    name = ApiKey(api_key(request.api)).name
    return {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": api_key(request.api),
            "requestApiVersion": request.version,
            "correlationId": number % 10_000,
            "clientId": client.client_id,
            "requestApiKeyName": name,
        },
        "request": asked,
        "response": {"throttleTimeMs": request.throttle_us // 1000, **answered},
        "connection": connection,
        "totalTimeMs": total / 1000,
        "requestQueueTimeMs": request.queue_us / 1000,
        "localTimeMs": request.local_us / 1000,
        "remoteTimeMs": request.remote_us / 1000,
        "throttleTimeMs": request.throttle_us // 1000,
        "responseQueueTimeMs": request.response_queue_us / 1000,
        "sendTimeMs": request.send_us / 1000,
        "securityProtocol": "PLAINTEXT" if client.principal == "User:ANONYMOUS" else "SASL_SSL",
        "principal": client.principal,
        "listener": request.listener,
        "clientInformation": {"softwareName": client.software, "softwareVersion": client.software_version},
    }


def _plain(request: Request) -> tuple[Body, Body]:
    return {}, {"errorCode": code_of(_error(request))}


def _produce(request: Request) -> tuple[Body, Body]:
    transaction = request.transaction["id"] if request.transaction else None
    sizes = [
        {"name": part.topic, "partitionData": [{"index": index, "recordsSizeInBytes": part.bytes} for index in part.partitions]}
        for part in request.parts
    ]
    answers = [
        {
            "name": part.topic,
            "partitionResponses": [
                {"index": index, "errorCode": code_of(part.error or request.error), "baseOffset": 0} for index in part.partitions
            ],
        }
        for part in request.parts
    ]
    return {"transactionalId": transaction, "acks": request.acks, "timeoutMs": 30000, "topicData": sizes}, {"responses": answers}


def _fetch(request: Request) -> tuple[Body, Body]:
    follower = request.client.client_id.startswith("broker-")
    state = (
        {"replicaId": int(request.client.host.rsplit(".", 1)[1]), "replicaEpoch": 1}
        if follower
        else {"replicaId": -1, "replicaEpoch": -1}
    )
    asked = [
        {"topicId": topic_id(part.topic), "partitions": [{"partition": index, "fetchOffset": 0} for index in part.partitions]}
        for part in request.parts
    ]
    answered = [
        {
            "topicId": topic_id(part.topic),
            "partitions": [
                {
                    "partitionIndex": index,
                    "errorCode": code_of(part.error),
                    "highWatermark": 1,
                    "recordsSizeInBytes": part.bytes if place == 0 else 0,
                }
                for place, index in enumerate(part.partitions)
            ],
        }
        for part in request.parts
        if part.bytes or part.error
    ]
    body = {"replicaState": state, "maxWaitMs": 500, "minBytes": 1, "sessionId": 7, "sessionEpoch": 1, "topics": asked}
    return body, {"errorCode": code_of(request.error), "sessionId": 7, "responses": answered}


def _metadata(request: Request) -> tuple[Body, Body]:
    asked = [{"topicId": "AAAAAAAAAAAAAAAAAAAAAA", "name": part.topic} for part in request.parts]
    answered = [
        {"errorCode": code_of(part.error or request.error), "name": part.topic, "topicId": topic_id(part.topic), "partitions": []}
        for part in request.parts
    ]
    return {"topics": asked or None, "allowAutoTopicCreation": True}, {
        "brokers": [],
        "clusterId": "c",
        "controllerId": 1,
        "topics": answered,
    }


def _group(request: Request) -> tuple[Body, Body]:
    named: Body = {
        "groupId": request.group,
        "generationId": request.generation,
        "memberId": request.member,
        "groupInstanceId": None,
    }
    answer: Body = {"errorCode": code_of(_error(request))}
    match request.api:
        case "JoinGroup":
            named |= {"sessionTimeoutMs": 45000, "rebalanceTimeoutMs": 300000, "protocolType": "consumer", "protocols": []}
            answer |= {
                "generationId": request.generation,
                "protocolName": "range",
                "leader": "",
                "memberId": request.member,
                "members": [],
            }
        case "OffsetCommit":
            topics = [
                {"name": part.topic, "partitions": [{"partitionIndex": index, "committedOffset": 9} for index in part.partitions]}
                for part in request.parts
            ]
            named |= {"topics": topics, "generationIdOrMemberEpoch": request.generation}
            code = code_of(_error(request))
            answer = {
                "topics": [
                    {"name": part.topic, "partitions": [{"partitionIndex": index, "errorCode": code} for index in part.partitions]}
                    for part in request.parts
                ]
            }
        case "LeaveGroup":
            named["members"] = [{"memberId": request.member, "groupInstanceId": None}]
    return named, answer


def _named(field: str, key: str, answers: str) -> Callable[[Request], tuple[Body, Body]]:
    """Return the body of a request about named topics, and of its response."""

    def body(request: Request) -> tuple[Body, Body]:
        names = [part.topic for part in request.parts] or [name or "" for _, name in request.resources]
        code = code_of(_error(request))
        return {field: [{key: name} for name in names]}, {answers: [{key: name, "errorCode": code} for name in names]}

    return body


def _configs(request: Request) -> tuple[Body, Body]:
    code = code_of(_error(request))
    listed = [{"resourceType": _RESOURCES[kind], "resourceName": name or ""} for kind, name in request.resources]
    altered = [{**each, "configs": [{"name": "retention.ms", "configOperation": 0, "value": "1000"}]} for each in listed]
    if request.api == "DescribeConfigs":
        return {"resources": listed}, {"results": [{"errorCode": code, **each, "configs": []} for each in listed]}
    return {"resources": altered, "validateOnly": False}, {"responses": [{"errorCode": code, **each} for each in listed]}


def _acls(request: Request) -> tuple[Body, Body]:
    code, rows = code_of(_error(request)), [(kind, name) for kind, name in request.resources if kind != "user"]
    user = next((name for kind, name in request.resources if kind == "user"), "User:*")
    if request.api == "CreateAcls":
        made = [
            {
                "resourceType": _RESOURCES[kind],
                "resourceName": name,
                "resourcePatternType": 3,
                "principal": user,
                "host": "*",
                "operation": 3,
                "permissionType": 3,
            }
            for kind, name in rows
        ]
        return {"creations": made}, {"results": [{"errorCode": code} for _ in rows]}
    filters = [
        {
            "resourceTypeFilter": _RESOURCES[kind],
            "resourceNameFilter": name,
            "patternTypeFilter": 3,
            "principalFilter": user,
            "hostFilter": "*",
            "operation": 3,
            "permissionType": 3,
        }
        for kind, name in rows
    ]
    return {"filters": filters}, {"filterResults": [{"errorCode": code, "matchingAcls": []} for _ in rows]}


def _listed(request: Request) -> tuple[Body, Body]:
    names = [name for _, name in request.resources]
    code = code_of(_error(request))
    match request.api:
        case "DescribeGroups":
            return {"groups": names}, {"groups": [{"errorCode": code, "groupId": name, "groupState": "Stable"} for name in names]}
        case "DeleteGroups":
            return {"groupsNames": names}, {"results": [{"groupId": name, "errorCode": code} for name in names]}
        case "FindCoordinator":
            keys = [{"key": name, "nodeId": 1, "host": "b", "port": 9092, "errorCode": code} for name in names]
            return {"keyType": 0, "coordinatorKeys": names}, {"coordinators": keys}
    return {}, {"errorCode": code}


def _offsets(request: Request) -> tuple[Body, Body]:
    group = {"groupId": request.group, "topics": None}
    return {"groups": [group], "requireStable": True}, {"groups": [{**group, "topics": [], "errorCode": code_of(_error(request))}]}


def _positions(request: Request) -> tuple[Body, Body]:
    def of(part: Part, **more: object) -> Body:
        return {"name": part.topic, "partitions": [{"partitionIndex": index, **more} for index in part.partitions]}

    asked = [of(part, timestamp=-1) for part in request.parts]
    answered = [of(part, errorCode=code_of(part.error or request.error), offset=9) for part in request.parts]
    return {"replicaId": -1, "isolationLevel": 0, "topics": asked}, {"topics": answered}


def _purged(request: Request) -> tuple[Body, Body]:
    if not request.parts:
        return _named("topics", "name", "topics")(request)

    def of(part: Part, **more: object) -> Body:
        return {"name": part.topic, "partitions": [{"partitionIndex": index, **more} for index in part.partitions]}

    asked = [of(part, offset=9) for part in request.parts]
    answered = [of(part, lowWatermark=9, errorCode=code_of(part.error or request.error)) for part in request.parts]
    return {"topics": asked, "timeoutMs": 30000}, {"topics": answered}


def _transaction(request: Request) -> tuple[Body, Body]:
    assert request.transaction is not None
    name, code = request.transaction["id"], code_of(_error(request))
    match request.api:
        case "AddPartitionsToTxn":
            topics = [{"name": part.topic, "partitions": list(part.partitions)} for part in request.parts]
            results = [
                {
                    "name": part.topic,
                    "resultsByPartition": [{"partitionIndex": index, "partitionErrorCode": code} for index in part.partitions],
                }
                for part in request.parts
            ]
            return {"v3AndBelowTransactionalId": name, "v3AndBelowTopics": topics}, {"resultsByTopicV3AndBelow": results}
        case "EndTxn":
            return {"transactionalId": name, "committed": request.transaction.get("outcome") != "aborted"}, {"errorCode": code}
    return {"transactionalId": name, "transactionTimeoutMs": 60000, "producerId": -1}, {"errorCode": code}


def _producer_id(request: Request) -> tuple[Body, Body]:
    if request.transaction is not None:
        return _transaction(request)
    return {"transactionalId": None, "transactionTimeoutMs": 2147483647}, {"errorCode": code_of(_error(request))}


_BODIES: dict[str, Callable[[Request], tuple[Body, Body]]] = {
    "Produce": _produce,
    "Fetch": _fetch,
    "Metadata": _metadata,
    **dict.fromkeys(("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit"), _group),
    "CreateTopics": _named("topics", "name", "topics"),
    "DeleteTopics": _named("topics", "name", "responses"),
    "CreatePartitions": _named("topics", "name", "results"),
    "DeleteRecords": _purged,
    "AlterPartitionReassignments": _named("topics", "name", "responses"),
    **dict.fromkeys(("DescribeConfigs", "IncrementalAlterConfigs", "AlterConfigs"), _configs),
    **dict.fromkeys(("CreateAcls", "DeleteAcls"), _acls),
    **dict.fromkeys(("DescribeGroups", "DeleteGroups", "FindCoordinator"), _listed),
    "ListOffsets": _positions,
    "OffsetFetch": _offsets,
    **dict.fromkeys(("AddPartitionsToTxn", "EndTxn"), _transaction),
    "InitProducerId": _producer_id,
}
