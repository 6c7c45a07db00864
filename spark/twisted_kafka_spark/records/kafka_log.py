"""Parse Apache Kafka's request log (`kafka.request.logger`, 2.8 to 4.x), whose lines contain JSON, into records.

The JSON is that of Kafka's RequestConvertToJson (KIP-673): header, request and response with the field names of the protocol, times
in milliseconds with three decimals. A date without a time zone has the UTC offset that the caller passes. Fields that the JSON
lacks are null in the record: the broker's id and the sizes on the wire. With a JSON layout, or behind a collector of logs, a line
is an object that contains the message as a string; such objects may be nested.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twisted_kafka_spark.records.kafka_names import ERROR_NAMES
from twisted_kafka_spark.records.kafka_resources import group, resources
from twisted_kafka_spark.records.kafka_shares import SHARE_APIS, shares
from twisted_kafka_spark.records.schema import ABORTED, COMMITTED, PHASES

_MARK = "Completed request:{"
_BEFORE_2_8 = re.compile(r"Completed request:(RequestHeader\(|Name: |\{api_key=)")
"""Requests as Kafka 2.7 and older write them: `RequestHeader` since 1.0, `Name` in 0.8, `api_key` between them."""
_OTHER = (
    "(kafka.network.RequestChannel$)",
    " received request: RequestHeader(",
    " response to client ",
    "(kafka.request.logger)",
)
_ZONES_BY_HOURS = {
    -8: "PST",
    -7: "PDT MST",
    -6: "MDT",
    -5: "CDT EST",
    -4: "EDT",
    0: "Z UTC GMT WET",
    1: "CET WEST",
    2: "CEST EET",
    3: "EEST MSK",
    9: "JST",
}
_ZONES = {name: hours for hours, names in _ZONES_BY_HOURS.items() for name in names.split()}
"""The hours from UTC of the zones' names; names of several zones (CST, IST, BST) are left out."""
_ZONE = rf"(?:\d* ?({'|'.join(_ZONES)}|[+-](?:0\d|1[0-8])(?::?[0-5]\d)?)(?![\w:]))?"
_DATE = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{3})" + _ZONE)
_TIME_FIELD = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[,.](\d{3}))?" + _ZONE)
_OTHER_LINE = re.compile(_DATE.pattern + r"\]? +(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_TIME_FIELDS = ("@timestamp", "timestamp", "time", "datetime", "date", "asctime", "ts", "timeMillis", "instant")
"""Names of the time in JSON layouts of log4j, Logback and collectors of logs, the more exact ones first."""
_LOGGER_FIELDS = ("loggerName", "logger_name", "logger", "log.logger")
_SECONDS_FIELDS = ("epochSecond", "seconds")
_NANOS_FIELDS = ("nanoOfSecond", "nanos")
_TEXT_FIELDS = ("message", "log", "msg", "short_message", "line")
_IN_MILLISECONDS = 1e11
"""A larger number is a time in milliseconds, otherwise in seconds."""
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""The errors of parsing a line that is damaged, or has values that no Kafka writes."""
_ERROR = re.compile(r'"(?:errorCode|partitionErrorCode)":(-?[1-9]\d*)')
_PHASE_FIELDS = dict(
    zip(
        PHASES,
        ("requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "throttleTimeMs", "responseQueueTimeMs", "sendTimeMs"),
        strict=True,
    )
)
_NAMES = ("name", "topic", "topicName", "topicId")
_SIZES = ("recordsSizeInBytes", "recordSetSizeInBytes")
"""The second is the name in fetches before Kafka 3.0."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_PARTITIONS = ("partitions", "partitionData", "partitionResponses", "partitionIndexes", "partitionStates", "resultsByPartition")
_INDEXES = ("partitionIndex", "index", "partition")
_MAX_PARTITIONS = 20
"""Most partition ids of a topic in a record, as in this broker's own log."""
_TOPIC_LISTS = ("topics", "topicData", "responses", "v3AndBelowTopics", "resultsByTopicV3AndBelow", "topicResults")
_GROUP_LISTS = ("groups", "transactions", "resultsByTransaction")
_NAMES_TOPICS = ("Metadata", "CreateTopics", "LeaderAndIsr", "UpdateMetadata", "DescribeTopicPartitions")
"""APIs whose messages contain both the name and the id of a topic."""
_LISTS_TOPICS = (
    *("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "OffsetCommit", "OffsetFetch", "TxnOffsetCommit", "OffsetDelete"),
    *("CreateTopics", "DeleteTopics", "DeleteRecords", "AddPartitionsToTxn"),
)
"""APIs whose topics the record lists: the same as in this broker's own log."""

_TRANSACTIONAL = ("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")


def is_request(line: str) -> bool:
    """Return whether a line is about a completed request, in the format of Kafka 2.8 and later."""
    at = line.find(_MARK)
    return at >= 0 and not line.startswith("api_key=", at + len(_MARK))


def is_before_2_8(line: str) -> bool:
    """Return whether a line is about a completed request in a format without JSON, which is not read."""
    return _BEFORE_2_8.search(line) is not None


def is_other(line: str) -> bool:
    """Return whether a line is from one of Kafka's logs, but not about a completed request.

    Where all loggers write to the same output, as in a container, most lines are of this kind; some continue on indented lines.
    """
    if line[:1].isspace():
        return bool(line.strip())
    return any(mark in line for mark in _OTHER) or (_OTHER_LINE.match(line) is not None and "Completed request:" not in line)


def is_other_layout(values: Mapping[str, Any]) -> bool:
    """Return whether the values of a JSON line are from one of Kafka's logs, but not about a completed request."""
    if any(isinstance(values.get(name), str) for name in _LOGGER_FIELDS):
        try:
            return _time_of([values], 0) is not None
        except _UNREADABLE:
            return False
    return any(is_other(values[name]) for name in _TEXT_FIELDS if isinstance(values.get(name), str))


def record(line: str, utc_offset_s: int, topic_ids: dict[str, str]) -> dict[str, Any] | None:
    """Return the record of a line, None when it is incomplete; add the topic ids in it to `topic_ids`."""
    try:
        content, time = _content(line, utc_offset_s)
        return None if time is None else _record(content, time, topic_ids)
    except _UNREADABLE:
        return None


def _content(line: str, utc_offset_s: int, time: str | None = None) -> tuple[dict[str, Any], str | None]:
    """Return the JSON of a request and its time: its line's own, or `time`, which is that of the object around the line."""
    start = line.index(_MARK) + len(_MARK) - 1
    if line[start + 1 : start + 2] == "\\":
        values, _ = json.JSONDecoder().raw_decode(line, line.index("{"))
        text, around = next(_texts(values, ()), ("", ()))
        return _content(text, utc_offset_s, _time_of(around, utc_offset_s) or time)
    content, _ = json.JSONDecoder().raw_decode(line, start)
    date = _DATE.search(line, 0, start)
    return content, time if date is None else _utc(date, utc_offset_s)


def _texts(values: Any, around: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Yield the texts with a request, each with the objects around it, the closest first."""
    if isinstance(values, str):
        if _MARK in values:
            yield values, around
    elif isinstance(values, dict):
        for value in values.values():
            yield from _texts(value, (values, *around))
    elif isinstance(values, list):
        for value in values:
            yield from _texts(value, around)


def _time_of(around: Sequence[Mapping[str, Any]], utc_offset_s: int) -> str | None:
    """Return the first time in these objects, None if they have none."""
    for values in around:
        for name in _TIME_FIELDS:
            value = values.get(name)
            if isinstance(value, str) and (date := _TIME_FIELD.match(value)) is not None:
                return _utc(date, utc_offset_s)
            seconds = _seconds(value)
            if seconds is not None:
                moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)
                return moment.isoformat(timespec="milliseconds") + "Z"
    return None


def _seconds(value: Any) -> float | None:
    """Return the seconds since 1970 that a number, or an object with seconds and nanoseconds, stands for."""
    if isinstance(value, dict):
        seconds = next((value[name] for name in _SECONDS_FIELDS if name in value), None)
        nanos = next((value[name] for name in _NANOS_FIELDS if name in value), 0)
        return None if seconds is None else int(seconds) + int(nanos) // 1_000_000 / 1000
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000 if value > _IN_MILLISECONDS else value


def _record(content: dict[str, Any], time: str, topic_ids: dict[str, str]) -> dict[str, Any]:
    header, response = content["requestHeader"], content.get("response") or {}
    api = _api_name(header["requestApiKeyName"])
    phases = {phase: round(content[name] * 1000) for phase, name in _PHASE_FIELDS.items()}
    if api in _NAMES_TOPICS:
        topic_ids.update(_ids(content))
    error = _ERROR.search(json.dumps(response, separators=(",", ":")))
    client, request = content.get("clientInformation") or {}, content.get("request") or {}
    return {
        "v": 2,
        "time": time,
        "listener": content.get("listener"),
        "protocol": content.get("securityProtocol"),
        "connection": content.get("connection"),
        "principal": content.get("principal"),
        "client_id": header.get("clientId"),
        "software": client.get("softwareName"),
        "software_version": client.get("softwareVersion"),
        "api": api,
        "api_key": header["requestApiKey"],
        "version": header["requestApiVersion"],
        "correlation_id": header["correlationId"],
        **phases,
        "total_us": sum(phases.values()),
        "error": _error_name(int(error[1])) if error else None,
        "topics": _topics(request, response) if api in _LISTS_TOPICS else [],
        "acks": request.get("acks") if api == "Produce" else None,
        **group(api, request, response),
        "share": shares(request, response) if api in SHARE_APIS else None,
        **resources(api, request),
        "transaction": _transaction(api, request, has_failed=error is not None) if api in _TRANSACTIONAL else None,
    }


def _api_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _error_name(code: int) -> str:
    return ERROR_NAMES.get(code, str(code))


def _utc(date: re.Match[str], utc_offset_s: int) -> str:
    """Return a date as the text of a time in UTC; its own zone counts, `utc_offset_s` if it has none."""
    zone = date[4]
    if zone is not None:
        utc_offset_s = _ZONES[zone] * 3600 if zone in _ZONES else _offset_s(zone)
    moment = datetime.datetime.fromisoformat(f"{date[1]}T{date[2]}.{date[3] or '000'}") - datetime.timedelta(seconds=utc_offset_s)
    return moment.isoformat(timespec="milliseconds") + "Z"


def _offset_s(text: str) -> int:
    """Return the seconds of an offset such as `+02`, `+0200` or `+02:00`."""
    hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or 0)
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


def _transaction(api: str, request: dict[str, Any], *, has_failed: bool) -> dict[str, Any] | None:
    """Return a request's transactional id and outcome; only EndTxn has an outcome, and no request has a duration."""
    named = request
    if "transactions" in request:  # several of them, or to verify one, are what brokers ask
        named = request["transactions"][0] if len(request["transactions"]) == 1 else {}
        if named.get("verifyOnly"):
            return None
    transactional_id = named.get("transactionalId", named.get("v3AndBelowTransactionalId"))
    if not transactional_id:
        return None
    outcome = (COMMITTED if request.get("committed") else ABORTED) if api == "EndTxn" and not has_failed else None
    return {"id": transactional_id, "outcome": outcome, "timeout_ms": request.get("transactionTimeoutMs")}


def _topics(request: dict[str, Any], response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the topics of a request, with the sizes and errors from the request and the response."""
    found: dict[str, dict[str, Any]] = {}
    asked, answered = list(_parts(request)), list(_parts(response))
    refused = {(name, part.get("index")) for name, partitions, _ in answered for part in partitions if part.get("errorCode")}
    for parts, is_response in ((asked, False), (answered, True)):
        count: Counter[str] = Counter()
        for name, partitions, own_code in parts:
            entry = found.setdefault(
                name, {"topic": name, "partitions": 0, "records": 0, "bytes": 0, "error": None, "partition_ids": []}
            )
            count[name] += len(partitions)  # a fetch may contain a topic several times
            entry["partitions"] = max(entry["partitions"], count[name])
            ids = entry["partition_ids"]
            ids += [index for part in partitions if (index := _index(part)) is not None and index not in ids][
                : _MAX_PARTITIONS - len(ids)
            ]
            codes = [own_code]
            for part in partitions:
                if is_response or (name, part.get("index")) not in refused:  # refused batches are not written
                    entry["bytes"] += next((part[size] for size in _SIZES if part.get(size)), 0)
                codes.append(part.get("errorCode") or part.get("partitionErrorCode") or 0)
            first = next((code for code in codes if code), 0)
            if is_response and first and entry["error"] is None:
                entry["error"] = _error_name(first)
    return list(found.values())


def _parts(message: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]], int]]:
    """Yield the topics at the top level of a message, or of a group or a transaction in it: name, partitions, error code."""
    holders = [message, *(group for key in _GROUP_LISTS for group in message.get(key) or () if isinstance(group, dict))]
    for holder in holders:
        for key in _TOPIC_LISTS:
            for topic in holder.get(key) or ():
                if not isinstance(topic, dict):
                    continue
                name = next((topic[each] for each in _NAMES if topic.get(each)), None)
                partitions: list[Any] = next((topic[each] for each in _PARTITIONS if isinstance(topic.get(each), list)), [])
                if name:
                    parts = [part if isinstance(part, dict) else {"partitionIndex": part} for part in partitions]
                    yield name, parts, topic.get("errorCode") or 0


def _index(part: dict[str, Any]) -> int | None:
    """Return the id of a partition, which has one of three names."""
    found = next((part[name] for name in _INDEXES if name in part), None)
    return found if isinstance(found, int) else None


def _ids(content: Any) -> Iterator[tuple[str, str]]:
    """Yield the id and the name of every topic that has both, at any depth."""
    if isinstance(content, dict):
        name = content.get("name") or content.get("topicName")
        if name and content.get("topicId", _NO_ID) not in (None, "", _NO_ID):
            yield content["topicId"], name
        for value in content.values():
            yield from _ids(value)
    elif isinstance(content, list):
        for value in content:
            yield from _ids(value)
