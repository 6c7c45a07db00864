"""Parse the lines of this broker by position: numpy finds and checks every field of thousands of lines at a time.

The broker writes fields in a fixed order and without spaces, so the text between the values is the same in every line. Values are
parsed backwards from the end of the line, numbers eight digits at a time as 64-bit words. The part from `node` to
`software_version` is the same in all lines of a connection, that from `api` to `version` in most of a client library: each is
compared as a whole, and each distinct text is parsed as JSON once. The text between the values is compared too. A line that differs
anywhere (another program's, incomplete, an additional field, a negative number) is left to the JSON reader in `lines`.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twisted_kafka_spark.records.frame import (
    AMOUNTS,
    IDENTITY,
    IDENTITY_SCHEMA,
    NO_ACKS,
    NO_GENERATION,
    Coded,
    Frame,
    Topics,
    no_resources,
    no_shares,
    no_transactions,
)

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]
    Words = np.ndarray[Any, np.dtype[np.uint64]]
    Marks = np.ndarray[Any, np.dtype[np.bool_]]

_PAD = 1024
"""Bytes before and after the lines: parsing a line of another format backwards may read beyond its start."""
_WORD = 8
_HEAD, _HEAD_2 = b'{"v":1,"time":"', b'{"v":2,"time":"'
_TIME_END = len(_HEAD) + len("2026-11-21T08:15:30.250Z")
_BEFORE_NUMBERS = b',"correlation_id":'
_API = b',"api":"'
_LEAST_OF_API, _MOST_OF_API = len(b',"api":"A","api_key":0,"version":0'), 100
"""Bytes from the name of an API to the end of its version; a longer text is left to the JSON reader."""
_NUMBERS = (
    *("request_bytes", "response_bytes", "request_queue_us", "local_us", "remote_us", "throttle_us", "response_queue_us"),
    *("send_us", "total_us"),
)
"""The fields after `correlation_id`, in order."""
_NO_ERROR, _ERROR, _TOPICS = b',"error":null', b',"error":"', b',"topics":['
_SEQUENCE, _WEIGHT = b',"sequence":', b',"weight":'
_PARTITION_IDS = b',"partition_ids":['
_IDS = re.compile(rb"\d{1,9}(,\d{1,9})*")
_MORE = {"acks": int, "group_id": str, "member_id": str, "generation": int}
"""What may be between the topics and the number of a line of version 2, in order, with its types."""
_ACKS, _GROUP_ID, _MEMBER_ID, _GENERATION = range(len(_MORE))
_TOPIC, _PARTITIONS, _RECORDS, _BYTES = b'{"topic":"', b'","partitions":', b',"records":', b',"bytes":'
_OPEN_LIST, _CLOSE_LIST, _CLOSE_OBJECT, _QUOTE, _COMMA = b'[]}",'
_MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_BAD = -1
_OF_CONNECTION, _OF_API = IDENTITY[: IDENTITY.index("api")], IDENTITY[IDENTITY.index("api") :]
_MOST_CONNECTIONS = 100_000
_CONNECTIONS: dict[bytes, tuple[Any, ...]] = {}
_MOST_PAIRS = 1 << 25
"""The most pairs of a connection and an API that a reader has room for; lines with further ones are left to the JSON reader."""
_CONNECTION_SCHEMA, _API_SCHEMA = (pa.schema([IDENTITY_SCHEMA.field(name) for name in part]) for part in (_OF_CONNECTION, _OF_API))


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


_ZEROS, _SEVEN_BITS, _HIGH_BITS, _TO_HIGH = _word(b"0" * 8), _word(b"\x7f" * 8), _word(b"\x80" * 8), _word(b"\x76" * 8)
_PAIRS, _FOURS, _EIGHT = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
_U8, _U10, _U16, _U32, _U100, _U10000 = (np.uint64(number) for number in (8, 10, 16, 32, 100, 10_000))
_SECONDS, _SECONDS_TEXT = _word(b":\0\0.\0\0\0Z"), _word(b"\xff\0\0\xff\0\0\0\xff")
_SECONDS_DIGITS = _word(b"\0\xff\xff\0\xff\xff\xff\0")


class _Block:
    """The bytes of many lines, and the 64-bit words that begin at each byte."""

    def __init__(self, data: Any) -> None:
        size = len(data)
        self.bytes = np.zeros(size + 2 * _PAD, np.uint8)
        self.bytes[_PAD : _PAD + size] = np.frombuffer(data, np.uint8)
        self._words: Words = np.ndarray((size + 2 * _PAD - _WORD,), np.dtype("<u8"), self.bytes.data, 0, (1,))

    def words(self, at: Numbers) -> Words:
        """Return the eight bytes at each position as a word."""
        found: Words = self._words[at]
        return found

    def has(self, text: bytes, at: Numbers) -> Marks:
        """Return at which positions the text, of at least eight bytes, is present."""
        last = len(text) - _WORD
        found: Marks = self._words[at + last] == _word(text[last:])
        for offset in range(0, last, _WORD):
            found &= self._words[at + offset] == _word(text[offset : offset + _WORD])
        return found

    def number_before(self, end: Numbers) -> tuple[Numbers, Numbers]:
        """Return the numbers that end at these positions, and where each begins: before all lines if there is no number."""
        values, length = self._digits_before(end)
        long = np.flatnonzero(length == _WORD)
        if len(long):
            more, further = self._digits_before(end[long] - _WORD)
            values[long] += more * 10**_WORD
            length[long] += further
        return values, np.where(length > 0, end - length, _PAD // 2)

    def _digits_before(self, end: Numbers) -> tuple[Numbers, Numbers]:
        words = self._words[end - _WORD] ^ _ZEROS
        # The exponent of a float gives the position of the highest bit, which is in the last byte that is not a digit.
        exponent = (_not_digits(words).astype(np.float64).view(np.int64) >> 52) - 1023
        length: Numbers = np.minimum((63 - exponent) >> 3, _WORD)
        shift = np.minimum((_WORD - length) * 8, 63).astype(np.uint64)
        words = np.where(length > 0, (words >> shift) << shift, np.uint64(0))
        return _eight_digits(words).astype(np.int64), length


def _not_digits(words: Words) -> Words:
    """Return a word with the high bit set in each byte that is greater than nine."""
    found: Words = (((words & _SEVEN_BITS) + _TO_HIGH) | words) & _HIGH_BITS
    return found


def _eight_digits(words: Words) -> Words:
    """Return the number whose decimal digits are the bytes, the most significant digit in the lowest byte."""
    words = (words * _U10 + (words >> _U8)) & _PAIRS
    words = (words * _U100 + (words >> _U16)) & _FOURS
    return (words * _U10000 + (words >> _U32)) & _EIGHT


class _Texts:
    """Numbers distinct texts and keeps the parsed value of each; texts that cannot be parsed have the number `_BAD`."""

    def __init__(self, parse: Callable[[bytes], Any]) -> None:
        self._parse = parse
        self._codes: dict[bytes, int] = {}
        self.values: list[Any] = []

    def codes(self, block: _Block, starts: Numbers, stops: Numbers) -> Numbers:
        """Return the numbers of the texts between these positions; the texts must not overlap and must be in order."""
        count = len(starts)
        if not count:
            return starts
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2], offsets[1::2], offsets[-1] = starts, stops, stops[-1]
        both = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(block.bytes)])
        encoded = both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))).dictionary_encode()
        ours = np.array([self._code(text) for text in encoded.dictionary.to_pylist()], np.int64)
        found: Numbers = ours[encoded.indices.to_numpy()]
        return found

    def _code(self, text: bytes) -> int:
        known = self._codes.get(text)
        if known is None:
            try:
                self.values.append(self._parse(text))
                known = len(self.values) - 1
            except (ValueError, TypeError):
                known = _BAD
            self._codes[text] = known
        return known


def _string(text: bytes) -> str:
    found = json.loads(b'"' + text + b'"')
    assert isinstance(found, str)
    return found


def _fields(text: bytes, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the values of a part of a line; raise ValueError when one has the wrong type or belongs to the other part."""
    fields = json.loads(b"{" + text + b"}")
    if any(name in fields for name in IDENTITY if name not in names):
        raise ValueError(text)
    values = tuple(fields.get(name) for name in names)
    for name, value in zip(names, values, strict=True):
        wanted = int if name in ("node", "version") else str
        if type(value) is not wanted and (value is not None or name == "api"):
            raise ValueError(name)
        if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31:
            raise ValueError(name)
    return values


def _api(text: bytes) -> tuple[Any, ...]:
    """Return the values of the part of a line from `api` to `version`."""
    return _fields(text, _OF_API)


def _connection(text: bytes) -> tuple[Any, ...]:
    """Return the values of the part from `node` to `software_version`; a worker reads many pieces with the same texts."""
    found = _CONNECTIONS.get(text)
    if found is None:
        if len(_CONNECTIONS) >= _MOST_CONNECTIONS:
            _CONNECTIONS.clear()
        found = _CONNECTIONS[text] = _fields(text, _OF_CONNECTION)
    return found


def _more(text: bytes) -> tuple[Any, ...]:
    """Return the values of the part of a line between topics and number; raise ValueError when one has another name or type."""
    fields = json.loads(b"{" + text[1:] + b"}")
    for name, value in fields.items():
        if name not in _MORE or type(value) is not _MORE[name] or (isinstance(value, int) and not -(1 << 31) <= value < 1 << 31):
            raise ValueError(name)
    return tuple(fields.get(name) for name in _MORE)


def _ids_text(text: bytes) -> str:
    """Return partition ids as text; raise ValueError if they are something else."""
    if not _IDS.fullmatch(text):
        raise ValueError(text)
    return text.decode("ascii")


class _Rows:
    """A table of the values of distinct texts, which grows with them."""

    def __init__(self, texts: _Texts, schema: pa.Schema) -> None:
        self._texts, self._table = texts, schema.empty_table()

    def table(self) -> pa.Table:
        """Return the values of all texts so far."""
        new = self._texts.values[self._table.num_rows :]
        if new:
            schema = self._table.schema
            columns = [pa.array(column, field.type) for column, field in zip(zip(*new, strict=True), schema, strict=True)]
            self._table = pa.concat_tables([self._table, pa.table(columns, schema)])
        return self._table


class _Identities:
    """Numbers the pairs of a connection and an API that occur, which are many more than there are connections or APIs."""

    def __init__(self) -> None:
        self.connections, self.apis = _Texts(_connection), _Texts(_api)
        self._rows = _Rows(self.connections, _CONNECTION_SCHEMA), _Rows(self.apis, _API_SCHEMA)
        self._codes = np.zeros((0, 0), np.int32)
        """The number of each pair plus one, 0 for a pair that has not occurred."""
        self._table = IDENTITY_SCHEMA.empty_table()

    def codes(self, connection: Numbers, api: Numbers) -> Numbers:
        """Return the numbers of the pairs; a pair with a part that cannot be parsed has the number `_BAD`."""
        found = np.full(len(connection), _BAD, np.int64)
        known = np.flatnonzero((connection != _BAD) & (api != _BAD))
        if not len(known) or not self._has_room():
            return found
        connection, api = connection[known], api[known]
        new = np.flatnonzero(self._codes[connection, api] == 0)
        if len(new):
            width = self._codes.shape[1]
            self._add(*np.divmod(np.unique(connection[new] * width + api[new]), width))
        found[known] = self._codes[connection, api] - 1
        return found

    def table(self) -> pa.Table:
        """Return the values of all pairs so far."""
        return self._table

    def _add(self, connection: Numbers, api: Numbers) -> None:
        first = self._table.num_rows
        self._codes[connection, api] = np.arange(first + 1, first + 1 + len(connection))
        parts = [rows.table().take(pa.array(codes)) for rows, codes in zip(self._rows, (connection, api), strict=True)]
        added = pa.table([*parts[0].columns, *parts[1].columns], IDENTITY_SCHEMA)
        self._table = pa.concat_tables([self._table, added])

    def _has_room(self) -> bool:
        """Make room for the pairs of all texts so far; return whether there is."""
        have, wanted = self._codes.shape, (len(self.connections.values), len(self.apis.values))
        if wanted[0] > have[0] or wanted[1] > have[1]:
            size = [old if old >= new else 2 * new for old, new in zip(have, wanted, strict=True)]
            if size[0] * size[1] > _MOST_PAIRS:
                return False
            larger = np.zeros(size, np.int32)
            larger[: have[0], : have[1]] = self._codes
            self._codes = larger
        return True


class _Reading:
    """The state of parsing a block: the lines' values so far, and which lines have had the expected format so far."""

    def __init__(self, block: _Block, starts: Numbers, stops: Numbers) -> None:
        self.block, self.starts, self.stops = block, starts, stops
        self.amounts: dict[str, Numbers] = {}
        self._read_tails()
        self._find_topics()
        self._read_numbers()

    def _read_tails(self) -> None:
        """Parse `]`, the fields that follow it in version 2, and `,"sequence":N}` or `,"sequence":N,"weight":W}`."""
        block = self.block
        self.is_ours: Marks = (block.bytes[self.stops - 1] == _CLOSE_OBJECT) & (
            block.has(_HEAD, self.starts) | block.has(_HEAD_2, self.starts)
        )
        self.sequence, start = block.number_before(self.stops - 1)
        self.weight = np.ones(len(start), np.int64)
        is_sequence = block.has(_SEQUENCE, start - len(_SEQUENCE))
        weighted = np.flatnonzero(~is_sequence)
        if len(weighted):
            end = start[weighted] - len(_WEIGHT)
            self.weight[weighted] = self.sequence[weighted]
            self.sequence[weighted], start[weighted] = block.number_before(end)
            is_sequence[weighted] = block.has(_WEIGHT, end) & block.has(_SEQUENCE, start[weighted] - len(_SEQUENCE))
        self.is_ours &= is_sequence
        self.tail = start - len(_SEQUENCE)
        self.list_end = self.tail - 1
        self.has_more = self.is_ours & (block.bytes[self.list_end] != _CLOSE_LIST)
        longer = np.flatnonzero(self.has_more)
        if len(longer):
            closes = np.append(0, np.flatnonzero(block.bytes == _CLOSE_LIST))
            self.list_end[longer] = closes[np.searchsorted(closes, self.tail[longer]) - 1]
        self.is_ours &= (block.bytes[self.list_end] == _CLOSE_LIST) & (self.list_end > self.starts)

    def _find_topics(self) -> None:
        """Find the start of each line's list of topics, and of each topic's object."""
        block = self.block
        marks = np.flatnonzero((block.bytes & 0xDF) == _OPEN_LIST)  # { and [ differ in this bit
        is_list = block.bytes[marks] == _OPEN_LIST
        self.lists, objects = marks[is_list], marks[~is_list]
        lists = self.lists[block.has(_TOPICS, self.lists + 1 - len(_TOPICS))]
        self.list_start = np.full(len(self.starts), _PAD, np.int64)
        self.list_start[np.searchsorted(self.starts, lists, "right") - 1] = lists
        self.is_ours &= (self.list_start > self.starts) & (self.list_start < self.list_end)
        self.objects = objects[block.has(_TOPIC, objects)]

    def _read_numbers(self) -> None:
        block = self.block
        end = self.list_start + 1 - len(_TOPICS)
        is_fine = block.has(_NO_ERROR, end - len(_NO_ERROR))
        self.failed, self.error_start, self.error_stop, fields_end = self._errors(self.starts, end, ~is_fine & self.is_ours)
        end = np.where(is_fine, end - len(_NO_ERROR), fields_end)
        for name in reversed(_NUMBERS):
            values, start = block.number_before(end)
            key = b',"%s":' % name.encode()
            end = start - len(key)
            self.is_ours &= block.has(key, end)
            if name in AMOUNTS:
                self.amounts[name] = values
        _, start = block.number_before(end)
        self.identity_stop = start - len(_BEFORE_NUMBERS)
        self.is_ours &= block.has(_BEFORE_NUMBERS, self.identity_stop) & (self.identity_stop > self.starts + _TIME_END)

    def _errors(self, starts: Numbers, ends: Numbers, wanted: Marks) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Find the name of the error before each of the marked ends.

        Returns the rows with an error, the begin and end of the errors' names, and for all rows the begin of the field, which is
        the row's start if the row has no error.
        """
        rows: list[int] = []
        names: list[int] = []
        fields = starts.copy()
        data = self.block.bytes.data
        for row in np.flatnonzero(wanted).tolist():
            start, end = int(starts[row]), int(ends[row])
            at = bytes(data[start:end]).rfind(_ERROR)
            if at >= 0 and data[end - 1] == _QUOTE:
                rows.append(row)
                names.append(start + at + len(_ERROR))
                fields[row] = start + at
        failed = np.array(rows, np.int64)
        return failed, np.array(names, np.int64), ends[failed] - 1, fields

    def read_topics(self, names: _Texts, errors: _Texts, ids: _Texts) -> Topics:
        """Parse the objects of the topics; a line is rejected if the format of one of its objects is another one."""
        block, starts = self.block, self.objects
        owner = np.searchsorted(self.starts, starts, "right") - 1
        inside = self.is_ours[owner] & (starts > self.list_start[owner])
        starts, owner = starts[inside], owner[inside]
        is_first = np.diff(owner, prepend=-1) != 0
        is_last = np.diff(owner, append=-1) != 0
        ends = np.where(is_last, self.list_end[owner], np.append(starts[1:], 0) - 1) - 1
        good = block.bytes[ends] == _CLOSE_OBJECT
        good &= is_last | (block.bytes[ends + 1] == _COMMA)
        good &= ~is_first | (starts == self.list_start[owner] + 1)
        partitions = self._partition_ids(ends, good, ids)
        is_fine = block.has(_NO_ERROR, ends - len(_NO_ERROR))
        failed, error_start, error_stop, fields = self._errors(starts, ends, ~is_fine & good)
        end = np.where(is_fine, ends - len(_NO_ERROR), fields)
        found = []
        for key in (_BYTES, _RECORDS, _PARTITIONS):
            values, start = block.number_before(end)
            end = start - len(key)
            good &= block.has(key, end)
            found.append(values)
        good &= end >= starts + len(_TOPIC)
        topic = self._coded(names, good, starts + len(_TOPIC), end)
        error = np.zeros(len(starts), np.int64)
        error[failed] = errors.codes(block, error_start, error_stop)
        good &= (topic != _BAD) & (error != _BAD)
        self.is_ours[owner[~good]] = False
        count = np.bincount(owner, minlength=len(self.starts))
        self.is_ours &= (count > 0) | (self.list_start + 1 == self.list_end)
        return Topics(owner, Coded(topic, None), Coded(error, None), found[1], found[0], Coded(partitions, None))

    def _partition_ids(self, ends: Numbers, good: Marks, texts: _Texts) -> Numbers:
        """Return the number of the partition ids of each topic, 0 for none, and move the ends of the topics before that field.

        Unmarks `good` where the field is malformed.
        """
        block = self.block
        codes = np.zeros(len(ends), np.int64)
        rows = np.flatnonzero(good & (block.bytes[ends - 1] == _CLOSE_LIST))
        if not len(rows):
            return codes
        close = ends[rows] - 1
        opening = self.lists[np.searchsorted(self.lists, close) - 1]
        has_ids = block.has(_PARTITION_IDS, opening + 1 - len(_PARTITION_IDS))
        codes[rows[has_ids]] = texts.codes(block, opening[has_ids] + 1, close[has_ids])
        good[rows] = has_ids & (codes[rows] != _BAD)
        ends[rows] = opening + 1 - len(_PARTITION_IDS)
        return codes

    def read_more(self, texts: _Texts) -> Numbers:
        """Return the number of each line's fields between the topics and the number of a line of version 2, `_BAD` for none."""
        wanted = self.has_more & self.is_ours
        codes = self._coded(texts, wanted, self.list_end + 1, self.tail)
        self.is_ours &= ~wanted | (codes != _BAD)
        return codes

    def _coded(self, texts: _Texts, good: Marks, starts: Numbers, stops: Numbers) -> Numbers:
        rows = np.flatnonzero(good)
        codes = np.full(len(starts), _BAD, np.int64)
        codes[rows] = texts.codes(self.block, starts[rows], stops[rows])
        return codes

    def read_identities(self, identities: _Identities) -> Numbers:
        """Return the number of each line's part from `node` to `version`."""
        begin = self.starts + _TIME_END
        self.is_ours &= (self.block.bytes[begin] == _QUOTE) & (self.block.bytes[begin + 1] == _COMMA)
        begin += len(b'",')
        api = self._before_api()
        self.is_ours &= api > begin
        rows = np.flatnonzero(self.is_ours)
        begin, api, end = begin[rows], api[rows], self.identity_stop[rows]
        connections = identities.connections.codes(self.block, begin, api)
        codes = np.full(len(self.starts), _BAD, np.int64)
        codes[rows] = identities.codes(connections, identities.apis.codes(self.block, api + 1, end))
        self.is_ours &= codes != _BAD
        return codes

    def _before_api(self) -> Numbers:
        """Return the position of the comma before each line's API, before all lines if none is in reach.

        The text `,"api":"` is nowhere else: in a string it would have backslashes, and in an inner object no part would be JSON.
        """
        found = np.zeros(len(self.starts), np.int64)
        rows = np.flatnonzero(self.is_ours)
        at = self.identity_stop[rows] - _LEAST_OF_API
        for _ in range(_LEAST_OF_API, _MOST_OF_API):
            is_there = self.block.has(_API, at)
            found[rows[is_there]] = at[is_there]
            rows, at = rows[~is_there], at[~is_there] - 1
            if not len(rows):
                break
        return found

    def read_errors(self, texts: _Texts) -> Numbers:
        """Return the number of each line's error."""
        codes = np.zeros(len(self.starts), np.int64)
        codes[self.failed] = texts.codes(self.block, self.error_start, self.error_stop)
        self.is_ours &= codes != _BAD
        return codes

    def read_times(self, minutes: dict[bytes, int]) -> Numbers:
        """Return the times in microseconds; most lines have the same minute as the previous one, which is parsed once."""
        block, at = self.block, self.starts + len(_HEAD)
        date, minute, rest = block.words(at), block.words(at + 8), block.words(at + 16)
        changes = np.flatnonzero(np.append(True, (date[1:] != date[:-1]) | (minute[1:] != minute[:-1])))
        begun = [self._minute(bytes(block.bytes[start : start + 16]), minutes) for start in at[changes].tolist()]
        base = np.repeat(np.array(begun, np.int64), np.diff(np.append(changes, len(at))))
        digits = (rest ^ _ZEROS) & _SECONDS_DIGITS
        self.is_ours &= (base != _BAD) & ((rest & _SECONDS_TEXT) == _SECONDS) & (_not_digits(digits) == 0)
        value = _eight_digits(digits).astype(np.int64)  # 0ss0mmm0
        self.is_ours &= value < 60 * 100_000
        return base + value // 100_000 * 1_000_000 + value % 10_000 // 10 * 1000

    @staticmethod
    def _minute(text: bytes, known: dict[bytes, int]) -> int:
        found = known.get(text)
        if found is None:
            try:
                minute = text.decode("ascii")
                if not _MINUTE.fullmatch(minute):
                    raise ValueError(minute)
                found = int(datetime.datetime.fromisoformat(f"{minute}:00+00:00").timestamp()) * 1_000_000
            except ValueError:
                found = _BAD
            known[text] = found
        return found


class _OfMore:
    """One of the fields of `_MORE`: numbers its distinct values."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._values: dict[str | None, int] = {None: 0}
        self._of_more = np.zeros(1, np.int64)
        """The number of the value of each text of such fields; of lines without such fields, that is the last."""

    def coded(self, more: Numbers, texts: list[Any]) -> Coded:
        """Return the values of the field; `more` has the numbers of the texts."""
        known = len(self._of_more) - 1
        if len(texts) > known:
            new = [self._values.setdefault(each[self._place], len(self._values)) for each in texts[known:]]
            self._of_more = np.concatenate((self._of_more[:known], np.array([*new, 0], np.int64)))
        return Coded(self._of_more[more], pa.array(list(self._values), pa.string()))


class _NumberOfMore:
    """One of the fields of `_MORE` that is a number."""

    def __init__(self, place: int, missing: int) -> None:
        self._place, self._missing = place, missing
        self._of_more = np.full(1, missing, np.int64)
        """The number of each text; of lines without such fields, that is the last."""

    def values(self, more: Numbers, texts: list[Any]) -> Numbers:
        """Return the number of each line; `more` has the numbers of the texts."""
        known = len(self._of_more) - 1
        if len(texts) > known:
            new = [self._missing if each[self._place] is None else each[self._place] for each in texts[known:]]
            self._of_more = np.concatenate((self._of_more[:known], np.array([*new, self._missing], np.int64)))
        found: Numbers = self._of_more[more]
        return found


class QuickReader:
    """Parses blocks of lines; the numbers of texts stay the same from block to block."""

    def __init__(self) -> None:
        self._identities = _Identities()
        self._errors = _Texts(_string)
        self._errors.values.append(None)
        self._topics = _Texts(_string)
        self._partition_ids = _Texts(_ids_text)
        self._partition_ids.values.append(None)
        self._more = _Texts(_more)
        self._groups, self._members = _OfMore(_GROUP_ID), _OfMore(_MEMBER_ID)
        self._acks, self._generations = _NumberOfMore(_ACKS, NO_ACKS), _NumberOfMore(_GENERATION, NO_GENERATION)
        self._minutes: dict[bytes, int] = {}

    def read(self, data: Any, starts: Numbers, stops: Numbers) -> tuple[Frame | None, Numbers]:
        """Return a frame of the lines that could be parsed, and the indexes of the others.

        `data`: the bytes of all lines; `starts`, `stops`: where each line begins, and where it ends without its newline.
        """
        reading = _Reading(_Block(data), starts + _PAD, stops + _PAD)
        identity = reading.read_identities(self._identities)
        error = reading.read_errors(self._errors)
        time_us = reading.read_times(self._minutes)
        more = reading.read_more(self._more)
        topics = reading.read_topics(self._topics, self._errors, self._partition_ids)
        is_ours = reading.is_ours
        others = np.flatnonzero(~is_ours)
        if len(others) == len(starts):
            return None, others
        topics.topic = Coded(topics.topic.codes, pa.array(self._topics.values, pa.string()))
        topics.error = Coded(topics.error.codes, self._error_names())
        topics.partitions = Coded(topics.partitions.codes, pa.array(self._partition_ids.values, pa.string()))
        frame = Frame(
            time_us,
            identity,
            self._identities.table(),
            reading.amounts,
            reading.weight,
            reading.sequence,
            Coded(error, self._error_names()),
            self._groups.coded(more, self._more.values),
            self._members.coded(more, self._more.values),
            no_resources(len(time_us)),
            topics,
            no_transactions(),
            self._acks.values(more, self._more.values),
            self._generations.values(more, self._more.values),
            no_shares(),
            self,
        )
        return frame.chosen(is_ours), others

    def _error_names(self) -> pa.Array:
        return pa.array(self._errors.values, pa.string())
