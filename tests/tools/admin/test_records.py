"""``twisted-kafka produce`` and ``consume``."""

import pytest

from tests.tools.admin.cli import Cli
from twisted_kafka.console.cluster.murmur2 import murmur2, partition_for


@pytest.mark.medium
def test_arguments_and_lines_are_records(cli: Cli) -> None:
    topic = cli.topic("-p", "1")
    assert cli.ok("produce", topic, "a", "b").lines == [f"2 records sent to {topic}: partition 0 offsets 0 to 1"]
    assert cli.ok("produce", topic, stdin="ü\r\n\nlast".encode()).lines == [
        f"3 records sent to {topic}: partition 0 offsets 2 to 4"
    ]
    assert cli.ok("consume", topic).lines == ["a", "b", "ü", "", "last"]


@pytest.mark.medium
def test_keys_headers_timestamps_and_partitions(cli: Cli) -> None:
    topic = cli.topic("-p", "3")
    options = ["-K", ":", "-H", "h=x", "-H", "i=", "-t", "2026-01-02T03:04:05Z", "-p", "2"]
    cli.ok("produce", topic, *options, stdin=b"k:v:w\n")
    cli.ok("produce", topic, "-k", "all", "-p", "2", "--null-marker", "NULL", "NULL")
    show = ["--show", "partition,offset,timestamp,key,headers,value", "--separator", "|"]
    first, second = cli.ok("consume", topic, *show).lines
    assert first == "2|0|2026-01-02T03:04:05.000Z|k|h=x,i=|v:w"
    assert second.split("|")[3:] == ["all", "", "null"]


@pytest.mark.medium
def test_a_record_as_json_comes_back_as_it_was(cli: Cli) -> None:
    topic, copy = cli.topic("-p", "2"), cli.topic("-p", "2", name="copy")
    given = (
        b'{"key":"k","value":{"a":[1,"\xc3\xbc"]},"headers":{"h":"x"},"timestamp":1700000000000,"partition":1}\n'
        b'{"key_hex":"ff00","value_hex":"fe","headers":[{"key":"h","value":null},{"key":"h","value_hex":"fd"}],"partition":1}\n'
        b'{"value":null,"partition":1}\n'
    )
    cli.ok("produce", topic, "--format", "json", stdin=given)
    result = cli.ok("consume", topic, "--format", "json")
    first, second, third = result.json
    assert (first["key"], first["value"], first["timestamp"]) == ("k", '{"a":[1,"ü"]}', 1700000000000)
    assert first["headers"] == [{"key": "h", "value": "x"}]
    assert (second["key_hex"], second["value_hex"]) == ("ff00", "fe")
    assert second["headers"] == [{"key": "h", "value": None}, {"key": "h", "value_hex": "fd"}]
    assert (third["key"], third["value"]) == (None, None)
    cli.ok("produce", copy, "--format", "json", stdin=result.out)
    assert [{**each, "topic": topic} for each in cli.json("consume", copy)] == result.json


@pytest.mark.medium
def test_bytes_in_hexadecimal(cli: Cli) -> None:
    topic = cli.topic("-p", "1")
    cli.ok("produce", topic, "-f", "hex", "-K", ":", stdin=b"00ff:0a 0d\n")
    assert cli.ok("consume", topic, "-f", "hex", "-s", "key,value").lines == ["00ff\t0a0d"]
    assert cli.ok("consume", topic).out == b"\n\r\n"


@pytest.mark.medium
def test_positions(cli: Cli) -> None:
    topic = cli.topic("-p", "2")
    for number in range(5):
        cli.ok("produce", topic, str(number), "-p", "0", "-t", f"2026-01-01T00:00:0{number}Z")
    cli.ok("produce", topic, "other", "-p", "1", "-t", "2026-01-01T00:00:09Z")
    assert cli.ok("consume", topic, "--from", "3", "-p", "0").lines == ["3", "4"]
    assert cli.ok("consume", topic, "--from", "-1").lines == ["4", "other"]
    assert cli.ok("consume", topic, "--from", "2026-01-01T00:00:02Z", "--until", "2026-01-01T00:00:04Z").lines == ["2", "3"]
    assert cli.ok("consume", topic, "--until", "1", "-p", "0").lines == ["0"]
    assert cli.ok("consume", topic, "-n", "2", "-p", "0").lines == ["0", "1"]
    assert cli.ok("consume", topic, "--from", "latest").out == b""
    assert cli.ok("consume", topic, "--from", "9").out == b""
    assert cli.ok("consume", topic, "--from", "1h").out == b""
    assert cli.ok("consume", topic, "--from", "latest", "--follow", "-n", "0").out == b""


def test_keys_go_where_other_clients_put_them(cli: Cli) -> None:
    # The hashes are those of Kafka's own test (UtilsTest.testMurmur2).
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"": 275646681}
    for key, expected in known.items():
        assert murmur2(key) == expected % 2**32
    topic = cli.topic("-p", "5")
    cli.ok("produce", topic, "-K", ":", stdin=b"21:a\nfoobar:b\n")
    found = {each["key"]: each["partition"] for each in cli.json("consume", topic)}
    assert found == {key: partition_for(key.encode(), 5) for key in ("21", "foobar")}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression(codec: str, cli: Cli) -> None:
    topic = cli.topic("-p", "1")
    lines = [f"record {number}" for number in range(20)]
    cli.ok("produce", topic, "--compression", codec, stdin="\n".join(lines).encode())
    assert cli.ok("consume", topic).lines == lines


@pytest.mark.medium
def test_many_records_in_many_batches(cli: Cli) -> None:
    topic = cli.topic("-p", "3")
    lines = [f"{number:0100}" for number in range(10_000)]
    assert cli.json("produce", topic, stdin="\n".join(lines).encode())[0]["records"] == 10_000
    assert sorted(cli.ok("consume", topic).lines) == lines


@pytest.mark.medium
@pytest.mark.parametrize("acks", ["0", "1"])
def test_fewer_acknowledgements(acks: str, cli: Cli) -> None:
    topic = cli.topic("-p", "1")
    cli.ok("produce", topic, "--acks", acks, "a")
    cli.ok("produce", topic, "b")
    assert "a" in cli.ok("consume", topic).lines


@pytest.mark.medium
def test_records_that_were_deleted_are_skipped(cli: Cli) -> None:
    topic = cli.topic("-p", "1")
    cli.ok("produce", topic, "a", "b", "c")
    cli.ok("topics", "delete-records", topic, "--before", "2", "-y")
    assert cli.ok("consume", topic, "--from", "0").lines == ["c"]


@pytest.mark.parametrize(
    ("options", "stdin", "said"),
    [
        (["-f", "json"], b'{"valu":1}', "record 1: unknown field 'valu'"),
        (["-f", "json"], b"{", "record 1: the line '{' is not JSON"),
        (["-f", "json"], b"[1]", 'expected an object such as {"key":"k","value":"v"}'),
        (["-f", "json"], b'{"value":%s}' % (b"[" * 100_000), "nested too deeply"),
        (["-f", "json"], b'{"timestamp":9223372036854775808}', "must be numbers"),
        (["-f", "json"], b'{"partition":2147483648}', "must be numbers"),
        (["-f", "json"], b'{"partition":true}', "must be numbers"),
        (["-f", "hex"], b"0a\nxyz", "record 2: 'xyz' is not hexadecimal"),
        (["-K", "\t"], b"no tab", "has no key separator '\\t'"),
        (["-p", "7"], b"a", "has no partition 7: it has 1 partition, from 0 on"),
    ],
)
def test_input_that_is_wrong(options: list[str], stdin: bytes, said: str, cli: Cli) -> None:
    assert said in cli.fails("produce", cli.topic("-p", "1"), *options, stdin=stdin)


@pytest.mark.medium
def test_a_time_of_zero_is_a_time(cli: Cli) -> None:
    topic = cli.topic("-p", "1")
    cli.ok("produce", topic, "a", "-t", "1970-01-01T00:00:00Z")
    assert [each["timestamp"] for each in cli.json("consume", topic)] == [0]
    assert "no time before 1970" in cli.fails("produce", topic, "a", "-t", "1969-12-31T23:59:59Z", status=2)
    assert "is not a position" in cli.fails("produce", topic, "a", "-t", f"{'9' * 400}d", status=2)


@pytest.mark.medium
def test_a_time_before_all_times_is_the_beginning(cli: Cli) -> None:
    """As timestamps, -1 and -2 stand for the ends of a partition, and others are refused."""
    topic = cli.topic("-p", "1")
    cli.ok("produce", topic, "a", "b")
    for time in ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59Z", "99999d"):
        assert cli.ok("consume", topic, "--from", time).lines == ["a", "b"]
    for wrong in ("9" * 20, "-" + "9" * 20, "9" * 5000, "\u0663"):
        assert "is not a position" in cli.fails("consume", topic, "--from", wrong, status=2)


def test_a_long_line_that_arrives_in_parts(cli: Cli) -> None:
    topic = cli.topic("-p", "1", "-c", "max.message.bytes=2000000")
    long = b"x" * 300_000
    cli.ok("produce", topic, stdin=long + b"\r\n\nb\n" + long)
    assert cli.ok("consume", topic).out.split(b"\n") == [long, b"", b"b", long, b""]


def test_a_record_that_is_too_large_names_the_setting(cli: Cli) -> None:
    topic = cli.topic("-p", "1", "-c", "max.message.bytes=100")
    assert "max.message.bytes" in cli.fails("produce", topic, "x" * 200)


def test_a_compacted_topic_needs_keys(cli: Cli) -> None:
    topic = cli.topic("-p", "1", "-c", "cleanup.policy=compact")
    assert "needs a key" in cli.fails("produce", topic, "a")
    cli.ok("produce", topic, "a", "--key", "k")


@pytest.mark.medium
def test_wrong_options(cli: Cli) -> None:
    assert "--show what: expected topic, partition" in cli.fails("consume", "x", "--show", "what", status=2)
    assert "--follow has no end" in cli.fails("consume", "x", "--follow", "--until", "3", status=2)
    topic = cli.topic("-p", "1")
    assert "has no partition 4" in cli.fails("consume", topic, "--partition", "4")
    assert "did you mean" in cli.fails("produce", topic[:-1], "a")
