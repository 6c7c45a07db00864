"""Topics over HTTP, and records in and out."""

from typing import Any, Final

from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import bad
from twisted_kafka.testing.control.forms import read_record, write_record

MAX_RECORDS: Final = 10_000
"""An answer has at most this many records."""
MAX_PARTITIONS: Final = 1000
_NO_SETTINGS: Final = frozenset({"self", "topic", "partitions", "replication_factor", "num_partitions", "config"})
"""Names of ``create_topic``'s arguments, and names that it refuses."""


def list_topics(call: Call) -> Any:
    """Return the topics with their partitions' leaders, replicas and offsets."""
    call.asked.end()
    return {"topics": [_topic_form(call, name) for name in call.target.kafka.topics()]}


def get_topic(call: Call) -> Any:
    """Return one topic, as in the list."""
    call.asked.end()
    (name,) = call.names
    return _topic_form(call, name)


def create_topic(call: Call) -> Any:
    """Create a topic: ``name``, ``partitions`` (1), ``replication_factor`` (the broker's default), ``config`` by Kafka's names."""
    given = call.given
    name, partitions = given.take("name", str), given.number("partitions", 1)
    replication_factor, config = given.take("replication_factor", int, -1), given.take("config", dict, {})
    given.end()
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise bad(f"partitions is {partitions}: expected 1 to {MAX_PARTITIONS}")
    for key in _NO_SETTINGS.intersection(config):
        raise bad(f"config has {key!r}: expected topic settings by Kafka's names, as in retention.ms")
    call.target.kafka.create_topic(name, partitions, replication_factor, **config)
    return _topic_form(call, name)


def delete_topic(call: Call) -> Any:
    """Delete a topic."""
    call.asked.end()
    (name,) = call.names
    call.target.kafka.delete_topic(name)
    return {}


def produce(call: Call) -> Any:
    """Append ``records`` to a ``partition`` (0); return the first one's offset. Each is a value, or has key, value, headers."""
    (name,) = call.names
    given = call.given
    partition, forms = given.number("partition", 0), given.take("records", list)
    given.end()
    if not forms:
        raise bad("records is []: expected at least one")
    offset = call.target.kafka.produce(name, [read_record(form) for form in forms], partition=partition)
    return {"topic": name, "partition": partition, "offset": offset, "count": len(forms)}


def list_records(call: Call) -> Any:
    """Return records from offset ``from`` (0) on, at most ``limit``, of one ``partition`` or of all."""
    (name,) = call.names
    asked = call.asked
    start, limit, partition = asked.number("from", 0), asked.number("limit", MAX_RECORDS), asked.number("partition", None)
    asked.end()
    most = min(limit, MAX_RECORDS)
    found: list[Any] = []
    for index in call.target.kafka.partitions(name) if partition is None else [partition]:
        for record in call.target.kafka.records(name, index):
            if record.offset >= start:
                if len(found) == most:
                    return {"records": found, "more": True}
                found.append(write_record(record))
    return {"records": found, "more": False}


def _topic_form(call: Call, name: str) -> dict[str, Any]:
    partitions = []
    for index in call.target.kafka.partitions(name):
        state = call.target.kafka.partition_state(name, index)
        partitions.append(
            {
                "partition": index,
                "leader": state.leader_id,
                "replicas": list(state.replica_nodes),
                "isr": list(state.isr_nodes),
                "start_offset": call.target.kafka.start_offset(name, index),
                "end_offset": call.target.kafka.end_offset(name, index),
            }
        )
    return {"name": name, "partitions": partitions}
