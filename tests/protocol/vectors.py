"""The golden vectors, and the names that changed between Apache Kafka 3.9 and 4.4."""

import gzip
import json
from pathlib import Path
from typing import Any

from twisted_kafka.protocol.api import find_message
from twisted_kafka.protocol.compiler.codec import Message

DATA = Path(__file__).parent.parent / "data" / "vectors"

# Messages with another name or number in 3.9, and their fields with another name there.
RENAMED_MESSAGES = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
RENAMED_FIELDS = {
    "ListConfigResourcesResponse": {"clientMetricsResources": "configResources", "name": "resourceName"},
    "TxnOffsetCommitRequest": {"generationId": "generationIdOrMemberEpoch"},
    "VoteRequest": {
        "candidateEpoch": "replicaEpoch",
        "candidateId": "replicaId",
        "candidateDirectoryId": "replicaDirectoryId",
    },
}
# Early-access messages whose version 0 changed between 3.9 and 4.4 without a new version number: 4.4's is used.
CHANGED_IN_PLACE = {("ReadShareGroupStateSummaryResponse", 0), ("ShareGroupMetadataValue", 0)}


def load() -> list[dict[str, Any]]:
    """Return all vectors, those of 3.9.2 first."""
    vectors = []
    for name in ("vectors-3.9.2.jsonl.gz", "vectors-4.4.0.jsonl.gz"):
        with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
            loaded = [json.loads(line) for line in lines]
        if "3.9" in name:
            loaded = [vector for vector in loaded if (vector["message"], vector["version"]) not in CHANGED_IN_PLACE]
        vectors += loaded
    return vectors


def rename(form: Any, names: dict[str, str]) -> Any:
    if isinstance(form, dict):
        return {names.get(key, key): rename(value, names) for key, value in form.items()}
    if isinstance(form, list):
        return [rename(item, names) for item in form]
    return form


def resolve(vector: dict[str, Any]) -> tuple[type[Message], int, dict[str, Any]]:
    """Return the class, the version and the fields of a vector, by the names of 4.4."""
    name, version = vector["message"], vector["version"]
    if name.endswith("Key") and vector["type"] == "data":
        # 3.9 stored the record type as the version of the key; in 4.4 every key has version 0.
        if name == "OffsetCommitKey" and version == 0:
            name = "LegacyOffsetCommitKey"
        version = 0
    name = RENAMED_MESSAGES.get(name, name)
    cls = find_message(name)
    return cls, version, rename(vector["json"], RENAMED_FIELDS.get(name, {}))
