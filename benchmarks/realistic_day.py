"""Write a day like those of real clusters: many clients, connections and topics, whose shares follow Zipf's law, and many APIs.

    python -m benchmarks.realistic_day DIRECTORY [--rows 2000000] [--clients 400] [--connections 3000] [--topics 200] [--nodes 1]
                                       [--seed 1]

The synthetic day of the package has few clients, so its partial results are small whatever is computed from it. Here a client has
one library, several connections and some topics, as in practice, but most clients send little.
"""

import argparse
import contextlib
import datetime
from pathlib import Path

import numpy as np

START = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
DAY_MS = 86_400_000
CHUNK = 100_000
ZIPF = 1.1
APIS: tuple[tuple[str, int, int, float, int], ...] = (
    ("Fetch", 1, 13, 0.42, 9000),
    ("Produce", 0, 9, 0.28, 900),
    ("Heartbeat", 12, 4, 0.08, 120),
    ("OffsetCommit", 8, 8, 0.07, 300),
    ("Metadata", 3, 12, 0.05, 150),
    ("ListOffsets", 2, 7, 0.02, 140),
    ("ApiVersions", 18, 3, 0.02, 60),
    ("FindCoordinator", 10, 4, 0.015, 80),
    ("OffsetFetch", 9, 8, 0.015, 130),
    ("JoinGroup", 11, 9, 0.005, 2500),
    ("SyncGroup", 14, 5, 0.005, 1800),
    ("LeaveGroup", 13, 5, 0.005, 90),
    ("DescribeConfigs", 32, 4, 0.005, 400),
    ("DescribeGroups", 15, 5, 0.005, 200),
    ("OffsetForLeaderEpoch", 23, 4, 0.005, 160),
)
"""Name, key, version, share of the requests, usual local time in microseconds."""
LIBRARIES = (("apache-kafka-java", "3.7.1"), ("librdkafka", "2.5.0"), ("kafka-python", "2.0.2"), ("sarama", "1.43.0"))
WITH_TOPICS = {"Fetch", "Produce", "ListOffsets", "OffsetCommit", "OffsetFetch", "OffsetForLeaderEpoch"}
ERRORS = ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "REBALANCE_IN_PROGRESS", "TOPIC_AUTHORIZATION_FAILED")
ERROR_SHARE, THROTTLED_SHARE = 0.003, 0.004


def zipf(count: int) -> np.ndarray:
    """Return shares that follow Zipf's law."""
    shares = 1.0 / np.arange(1, count + 1) ** ZIPF
    return shares / shares.sum()


def write(
    directory: Path, rows: int, clients: int = 400, connections: int = 3000, topics: int = 200, nodes: int = 1, seed: int = 1
) -> int:
    """Write the day, in the layout of the broker; return the number of lines."""
    random = np.random.default_rng(seed)
    client_shares, topic_shares = zipf(clients), zipf(topics)
    client_of = np.concatenate([np.arange(clients), random.choice(clients, max(0, connections - clients), p=client_shares)])
    connection_shares = client_shares[client_of] / np.bincount(client_of, minlength=clients)[client_of]
    connection_shares /= connection_shares.sum()
    heads = [_head(number, int(client), number % nodes + 1) for number, client in enumerate(client_of.tolist())]
    names = [f'{{"topic":"topic-{number:03}","partitions":' for number in range(topics)]
    api_shares = np.array([api[3] for api in APIS])
    api_shares /= api_shares.sum()
    written = [0] * (nodes + 1)
    with contextlib.ExitStack() as stack:
        files: dict[tuple[int, int], object] = {}
        for first in range(0, rows, CHUNK):
            size = min(CHUNK, rows - first)
            at_ms = np.sort(random.integers(first * DAY_MS // rows, (first + size) * DAY_MS // rows, size)).tolist()
            connection = random.choice(len(heads), size, p=connection_shares).tolist()
            api = random.choice(len(APIS), size, p=api_shares).tolist()
            topic = random.choice(topics, size, p=topic_shares).tolist()
            times = np.exp(random.normal(0, 0.9, (size, 4)))
            local = (times[:, 0] * np.array([each[4] for each in APIS])[api]).astype(int).tolist()
            queue = (times[:, 1] * 40).astype(int).tolist()
            send = (times[:, 2] * 25).astype(int).tolist()
            bytes_ = (times[:, 3] * 3000).astype(int).tolist()
            chance = random.random(size).tolist()
            empty = (random.random(size) < 0.4).tolist()
            for row in range(size):
                line, node, hour = _line(
                    at_ms[row],
                    heads[connection[row]],
                    APIS[api[row]],
                    names[topic[row]],
                    local[row],
                    queue[row],
                    send[row],
                    bytes_[row],
                    chance[row],
                    empty[row],
                )
                key = node, hour
                if key not in files:
                    folder = directory / f"date=2026-11-20/hour={hour:02}"
                    folder.mkdir(parents=True, exist_ok=True)
                    files[key] = stack.enter_context((folder / f"node-{node}-000001.jsonl").open("w"))
                written[node] += 1
                files[key].write(f'{line},"sequence":{written[node]}}}\n')  # type: ignore[attr-defined]
    return rows


def _head(number: int, client: int, node: int) -> tuple[int, str]:
    software, version = LIBRARIES[client % len(LIBRARIES)]
    user = f"User:team-{client % 37}"
    connection = f"10.0.0.{node}:9092-10.{client % 200}.{number % 250}.7:{20000 + number % 40000}-{number}"
    return node, (
        f'"node":{node},"listener":"{"SSL" if client % 3 else "PLAINTEXT"}","protocol":"{"SSL" if client % 3 else "PLAINTEXT"}",'
        f'"connection":"{connection}","principal":"{user}","client_id":"client-{client:06}","software":"{software}",'
        f'"software_version":"{version}",'
    )


def _line(
    at_ms: int, head: tuple[int, str], api: tuple[str, int, int, float, int], topic: str, local: int, queue: int, send: int,
    size: int, chance: float, is_empty: bool,
) -> tuple[str, int, int]:  # fmt: skip
    name, key, version, _, _ = api
    seconds, ms = divmod(at_ms, 1000)
    time = f"2026-11-20T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}Z"
    error = f'"{ERRORS[int(chance * 1e6) % len(ERRORS)]}"' if chance < ERROR_SHARE else "null"
    throttle = 150_000 if chance > 1 - THROTTLED_SHARE else 0
    remote = local * 40 if name == "Fetch" and is_empty else local // 8
    moved = size if name == "Produce" or (name == "Fetch" and not is_empty) else 0
    listed = f'{topic}1,"records":{moved // 100 if name == "Produce" else 0},"bytes":{moved},"error":{error}}}' if (
        name in WITH_TOPICS
    ) else ""  # fmt: skip
    total = queue + local + remote + throttle + send + 9
    return (
        f'{{"v":1,"time":"{time}",{head[1]}"api":"{name}","api_key":{key},"version":{version},"correlation_id":{at_ms},'
        f'"request_bytes":{120 + (moved if name == "Produce" else 0)},"response_bytes":{80 + (moved if name == "Fetch" else 0)},'
        f'"request_queue_us":{queue},"local_us":{local},"remote_us":{remote},"throttle_us":{throttle},"response_queue_us":9,'
        f'"send_us":{send},"total_us":{total},"error":{error},"topics":[{listed}]',
        head[0],
        seconds // 3600,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    for name, default in (("rows", 2_000_000), ("clients", 400), ("connections", 3000), ("topics", 200), ("nodes", 1), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = vars(parser.parse_args())
    print(f"wrote {write(**options):,} lines to {options['directory']}")


if __name__ == "__main__":
    main()
