"""The limits in docs/compatibility.md are those of the code."""

import re
from pathlib import Path

from twisted_kafka.group_coordinator.consumer.regexes import MAX_REGEX_LENGTH
from twisted_kafka.group_coordinator.streams.heartbeat_validation import MOST_HOST_CHARACTERS
from twisted_kafka.group_coordinator.streams.internal_topics import MOST_READ, MOST_TASKS
from twisted_kafka.log.cleaner.offset_map import PLAIN_ENTRY_BYTES
from twisted_kafka.log.validation.convert import DECOMPRESSION_LIMIT_BYTES, MAX_REWRITTEN_RECORDS
from twisted_kafka.log.validation.records import MAX_RECORD_ERRORS
from twisted_kafka.quota.client_quota_manager import MAX_SENSORS
from twisted_kafka.replication.operations.reader import MOST_UNKNOWN
from twisted_kafka.server.apis.administration.describe_configs import MOST_VALUES
from twisted_kafka.server.apis.data.down_conversion import CONVERTED_BYTES
from twisted_kafka.server.large_requests import MOST_BROKER_ELEMENTS, MOST_ELEMENTS
from twisted_kafka.share import share_sessions
from twisted_kafka.share_coordinator import share_coordinator_shard, state_persister

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"

LIMITS: dict[str, tuple[int, ...]] = {
    "decompressed size of a batch": (DECOMPRESSION_LIMIT_BYTES,),
    "records in a batch": (MAX_REWRITTEN_RECORDS,),
    "elements of a request": (MOST_ELEMENTS, MOST_BROKER_ELEMENTS),
    "configs and synonyms in a response to DescribeConfigs": (MOST_VALUES,),
    "partitions of all share sessions of a broker": (share_sessions.MOST_PARTITIONS,),
    "characters of the group and member ids of all share sessions": (share_sessions.MOST_KEY_CHARACTERS,),
    "runs of offsets in the state of a share partition": (share_coordinator_shard.MAX_BATCHES,),
    "share partitions that wait for an answer of a share coordinator": (state_persister.MAX_WAITING,),
    "tasks of a streams group": (MOST_TASKS,),
    "partitions that the tasks of a streams group read": (MOST_READ,),
    "host of a member's endpoint in a streams group": (MOST_HOST_CHARACTERS,),
    "unknown partitions in a fetch that waits": (MOST_UNKNOWN,),
    "rejected records that a response lists": (MAX_RECORD_ERRORS,),
    "records of a partition converted at once for Fetch v0-v3": (CONVERTED_BYTES,),
    "members of a gzip batch, frames of a zstd batch": (256, 4096),  # private names: tests/protocol tries both
    "characters of a SubscribedTopicRegex, or of a TransactionalIdPattern": (MAX_REGEX_LENGTH,),
    "clients measured for each type of quota": (MAX_SENSORS,),
    "memory of the log cleaner's key map": (PLAIN_ENTRY_BYTES,),
}
"""The numbers of each row that has some."""


def _rows() -> dict[str, str]:
    section = DOCUMENT.read_text().partition("\n## Limits\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")]
    return {what: here for what, here, _ in rows[1:]}


def _text(number: int) -> str:
    return f"{number >> 20} MiB" if number >= 1 << 20 and number % (1 << 20) == 0 else f"{number:,}"


def test_each_limit_has_the_number_of_the_code() -> None:
    rows = _rows()
    assert LIMITS.keys() <= rows.keys()
    assert [what for what, numbers in LIMITS.items() if not all(_text(each) in rows[what] for each in numbers)] == []


def test_no_row_has_numbers_that_nothing_checks() -> None:
    assert {what for what, here in _rows().items() if re.search(r"\d{3}", here)} <= LIMITS.keys()
