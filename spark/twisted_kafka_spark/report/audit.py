"""Audit events of a log: OCSF 1.0 (Authentication 3002, Application Lifecycle 6002, API Activity 6003) or CloudEvents 1.0.

Logins, refusals by the authorizer, changes of the cluster, and brokers that start and stop become events; all other requests do so
only if they are asked for. Lines are read in this process, one block at a time, without Spark.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from twisted_kafka_spark.choices import OCSF
from twisted_kafka_spark.records.connections import ends
from twisted_kafka_spark.records.kafka_names import ADMINISTRATION
from twisted_kafka_spark.records.lines import LineReader
from twisted_kafka_spark.records.pieces import Piece, blocks

OCSF_VERSION = "1.0.0"
LOGINS = ("SaslAuthenticate",)
LIFECYCLE = {"BrokerRegistration": 3, "ControlledShutdown": 4, "UnregisterBroker": 2}
"""What a broker asks for when it starts, stops or is removed, with OCSF's activity of an Application Lifecycle."""
_CREATE, _READ, _UPDATE, _DELETE, _OTHER = 1, 2, 3, 4, 99
_ACTIVITY_NAMES = {_CREATE: "Create", _READ: "Read", _UPDATE: "Update", _DELETE: "Delete", _OTHER: "Other"}
_BY_PREFIX = (
    (("Create", "Produce", "AddPartitions", "AddOffsets", "InitProducerId"), _CREATE),
    (("Delete", "OffsetDelete", "Expire", "Unregister", "Remove"), _DELETE),
    (("Describe", "List", "Fetch", "Metadata", "OffsetFetch", "FindCoordinator", "OffsetForLeaderEpoch", "ShareFetch"), _READ),
    (("Alter", "Incremental", "Update", "Elect", "Renew", "Offset", "EndTxn", "TxnOffset"), _UPDATE),
)
_REFUSED = "_AUTHORIZATION_FAILED"
_REFUSED_CODES = "29|30|31|53|65"
_AUTHENTICATION, _APPLICATION_LIFECYCLE, _API_ACTIVITY = 3002, 6002, 6003
_LINES = 2_000
"""Lines that are parsed at a time."""
Values = dict[str, Any]


def _as_constant(api: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).upper()


_APIS = (*ADMINISTRATION, *LOGINS, *LIFECYCLE)
_RELEVANT = re.compile(
    rf'"allowed":false|"api":"(?:{"|".join(_APIS)})"|{_REFUSED}|"requestApiKeyName":"(?:{"|".join(map(_as_constant, _APIS))})"'
    rf'|rrorCode":(?:{_REFUSED_CODES})\b'.encode()
)
"""Lines that may become events, of this broker or of Apache Kafka; the others are not parsed."""


def records(pieces: Iterable[Piece], utc_offset_s: int = 0, since: str = "", until: str = "", *, has_all: bool) -> Iterator[Values]:
    """Yield the records of a log that become events, in a period whose ends are in the format of the field `time`."""
    import pyarrow as pa

    reader = LineReader(utc_offset_s)
    for piece in pieces:
        for block in blocks(piece):
            lines = [line for line in block.split(b"\n") if line and (has_all or _RELEVANT.search(line))]
            for first in range(0, len(lines), _LINES):
                texts = pa.array([line.decode("utf-8", "replace").removesuffix("\r") for line in lines[first : first + _LINES]])
                for batch in reader.records(texts):
                    for record in batch.to_pylist():
                        is_within = (not since or record["time"] >= since) and (not until or record["time"] < until)
                        if record["api"] is not None and is_within and (has_all or is_audited(record)):
                            yield record


def is_audited(record: Values) -> bool:
    """Return whether a request is a login, a refusal, a change of the cluster, or a broker that starts or stops."""
    if any(not decision["allowed"] for decision in record["decisions"] or ()):
        return True
    errors = [record["error"], *(topic["error"] for topic in record["topics"] or ())]
    return record["api"] in _APIS or any(error is not None and error.endswith(_REFUSED) for error in errors)


def event(record: Values, form: str, version: str) -> Values:
    """Return the event of a record in one of `EVENT_FORMATS`; `version` is that of this program."""
    return _ocsf(record, version) if form == OCSF else _cloud_event(record)


def identity(record: Values) -> str:
    """Return what identifies a record: the broker and the number of its line, or a hash of a line without a number."""
    if record["sequence"] is not None:
        return f"{record['node']}-{record['sequence']}"
    named = [record[name] for name in ("time", "connection", "api", "correlation_id", "client_id")]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]


def _ocsf(record: Values, version: str) -> Values:
    api, failed = record["api"], record["error"] is not None or _refused_topics(record)
    if api in LOGINS:
        uid, activity, name = _AUTHENTICATION, 1, "Logon"
    elif api in LIFECYCLE:
        uid, activity = _APPLICATION_LIFECYCLE, LIFECYCLE[api]
        name = {2: "Remove", 3: "Start", 4: "Stop"}[activity]
    else:
        uid, activity = _API_ACTIVITY, activity_of(api)
        name = _ACTIVITY_NAMES[activity]
    is_bad = failed and (api in LOGINS or is_refused(record))
    common = {
        "activity_id": activity,
        "activity_name": name,
        "category_uid": uid // 1000,
        "class_uid": uid,
        "type_uid": uid * 100 + activity,
        "time": _milliseconds(record["time"]),
        "severity_id": 3 if is_bad else 1,
        "severity": "Medium" if is_bad else "Informational",
        "status_id": 2 if failed else 1,
        "status": "Failure" if failed else "Success",
        "status_code": record["error"],
        "message": _message(record),
        "metadata": {
            "version": OCSF_VERSION,
            "uid": identity(record),
            "product": {"name": "twisted-kafka-spark", "vendor_name": "twisted_kafka", "version": version},
        },
        "unmapped": {
            "listener": record["listener"],
            "api_version": record["version"],
            "node": record["node"],
            "decisions": record["decisions"],
        },
    }
    return _without_none({**common, **_of_class(uid, record)})


def _of_class(uid: int, record: Values) -> Values:
    source, destination = endpoints(record)
    if uid == _AUTHENTICATION:
        return {
            "user": _user(record["principal"]),
            "src_endpoint": source,
            "dst_endpoint": destination,
            "service": {"name": "Apache Kafka"},
            "auth_protocol_id": _OTHER,
            "auth_protocol": "SASL",
            "is_cleartext": record["protocol"] in ("PLAINTEXT", "SASL_PLAINTEXT"),
            "is_remote": True,
        }
    if uid == _APPLICATION_LIFECYCLE:
        named = next((each["name"] for each in record["resources"] or () if each["type"] == "broker"), None)
        return {"app": {"name": "Kafka broker", "vendor_name": "twisted_kafka", "uid": named or str(record["node"])}}
    return {
        "actor": {"user": _user(record["principal"])},
        "api": {
            "operation": record["api"],
            "service": {"name": "Apache Kafka"},
            "request": {"uid": str(record["correlation_id"])},
            "response": {"code": 0, "message": "NONE"} if record["error"] is None else {"error": record["error"]},
        },
        "src_endpoint": source or {"name": "unknown"},  # required
        "dst_endpoint": destination,
        "resources": [{"type": kind, "name": name} for kind, name in resources(record)] or None,
    }


def _cloud_event(record: Values) -> Values:
    source, destination = endpoints(record)
    subject = next((f"{kind}/{name}" for kind, name in resources(record)), None)
    kind = "login" if record["api"] in LOGINS else "lifecycle" if record["api"] in LIFECYCLE else "request"
    data = {
        **{
            name: record[name] for name in ("api", "version", "principal", "client_id", "listener", "protocol", "error", "group_id")
        },
        "granted": not is_refused(record),
        "decisions": record["decisions"],
        "source": source,
        "destination": destination,
        "resources": [{"type": kind, "name": name} for kind, name in resources(record)],
    }
    return _without_none(
        {
            "specversion": "1.0",
            "id": identity(record),
            "source": f"/kafka/brokers/{record['node']}" if record["node"] is not None else "/kafka/brokers",
            "type": f"twisted_kafka.audit.{kind}",
            "subject": subject,
            "time": record["time"],
            "datacontenttype": "application/json",
            "data": data,
        }
    )


def activity_of(api: str) -> int:
    """Return OCSF's activity of an API: create, read, update, delete or other."""
    return next((activity for prefixes, activity in _BY_PREFIX if api.startswith(prefixes)), _OTHER)


def is_refused(record: Values) -> bool:
    """Return whether the authorizer refused a request, or some of its topics."""
    is_denied = any(not decision["allowed"] for decision in record["decisions"] or ())
    return is_denied or (record["error"] or "").endswith(_REFUSED) or _refused_topics(record)


def _refused_topics(record: Values) -> bool:
    return any((topic["error"] or "").endswith(_REFUSED) for topic in record["topics"] or ())


def resources(record: Values) -> list[tuple[str, str]]:
    """Return the type and the name of everything that a request is about; a default has the name `(default)`."""
    found = [("topic", topic["topic"]) for topic in record["topics"] or () if topic["topic"] is not None]
    found += [("group", record["group_id"])] if record["group_id"] is not None else []
    found += [(each["type"] or "unknown", each["name"] or "(default)") for each in record["resources"] or ()]
    return list(dict.fromkeys(found))


def endpoints(record: Values) -> tuple[Values | None, Values | None]:
    """Return the client's and the broker's address and port, in `local:port-remote:port-index`; None if they are hidden."""
    found = ends(record["connection"])
    if found is None:
        return None, None
    return _endpoint(found.client, found.client_port), _endpoint(found.broker, found.broker_port)


def _endpoint(host: str, port: int) -> Values | None:
    return {"ip": host.strip("[]"), "port": port} if host else None


def _user(principal: str | None) -> Values:
    kind, _, name = (principal or "").partition(":")
    return {"name": name or kind or "unknown", "uid": principal, "type_id": 1}


def _message(record: Values) -> str:
    what = ", ".join(f"{kind} {name}" for kind, name in resources(record)[:5])
    result = f" failed with {record['error']}" if record["error"] else ""
    return f"{record['api']}{' of ' + what if what else ''} by {record['principal']}{result}"


def _milliseconds(time: str) -> int:
    return round(datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)


def _without_none(values: Values) -> Values:
    return {name: _without_none(value) if isinstance(value, dict) else value for name, value in values.items() if value is not None}
