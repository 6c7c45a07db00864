"""The time to decode and encode common messages, in nanoseconds: ``python benchmarks/protocol_codec.py``."""

import timeit
from collections.abc import Callable
from functools import partial

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import parse_request_header
from twisted_kafka.protocol.messages import fetch, groups, list_offsets, metadata, offsets, produce

REPEATS = 5
SECONDS_PER_REPEAT = 0.1


def best_ns(action: Callable[[], object]) -> float:
    """Return the best time of one call over several rounds."""
    timer = timeit.Timer(action)
    number, taken = timer.autorange()
    number = max(1, int(number * SECONDS_PER_REPEAT / taken))
    return min(timer.repeat(REPEATS, number)) / number * 1e9


def samples() -> list[tuple[str, Message, int]]:
    """Return typical messages of clients and brokers."""
    produce_request = produce.ProduceRequest(
        acks=-1,
        timeout_ms=30000,
        topic_data=[
            produce.TopicProduceData(name="orders", partition_data=[produce.PartitionProduceData(index=0, records=b"r" * 170)])
        ],
    )
    produce_response = produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name="orders", partition_responses=[produce.PartitionProduceResponse(index=0, base_offset=12345)]
            )
        ]
    )
    fetch_request = fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=52428800,
        topics=[
            fetch.FetchTopic(
                topic="orders", partitions=[fetch.FetchPartition(partition=0, fetch_offset=12345, partition_max_bytes=1048576)]
            )
        ],
    )
    fetch_response = fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic="orders",
                partitions=[
                    fetch.PartitionData(
                        partition_index=0,
                        high_watermark=99,
                        last_stable_offset=99,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=memoryview(b"r" * 170),
                    )
                ],
            )
        ]
    )
    metadata_response = metadata.MetadataResponse(
        brokers=[metadata.MetadataResponseBroker(node_id=0, host="localhost", port=9092)],
        cluster_id="wjXnPXVORNeYQ0jzMOO0Tw",
        controller_id=0,
        topics=[
            metadata.MetadataResponseTopic(
                name="orders",
                partitions=[metadata.MetadataResponsePartition(leader_id=0, replica_nodes=[0], isr_nodes=[0])],
            )
        ],
    )
    positions = list_offsets.ListOffsetsRequest(
        topics=[
            list_offsets.ListOffsetsTopic(
                name="orders", partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ]
    )
    commit = offsets.OffsetCommitRequest(
        group_id="billing",
        member_id="consumer-1-5dbb2b9c",
        topics=[
            offsets.OffsetCommitRequestTopic(
                name="orders", partitions=[offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
            )
        ],
    )
    heartbeat = groups.HeartbeatRequest(group_id="billing", generation_id=4, member_id="consumer-1-5dbb2b9c")
    wanted = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="orders")])
    return [
        ("Produce request", produce_request, 8),
        ("Produce request", produce_request, 9),
        ("Produce response", produce_response, 8),
        ("Produce response", produce_response, 9),
        ("Fetch request", fetch_request, 11),
        ("Fetch request", fetch_request, 12),
        ("Fetch response", fetch_response, 11),
        ("Fetch response", fetch_response, 12),
        ("Metadata request", wanted, 9),
        ("Metadata response", metadata_response, 9),
        ("ListOffsets request", positions, 7),
        ("OffsetCommit request", commit, 8),
        ("Heartbeat request", heartbeat, 4),
    ]


def main() -> None:
    """Print a table."""
    print(f"{'message':<22}{'version':>8}{'bytes':>8}{'decode ns':>12}{'encode ns':>12}")
    for title, message, version in samples():
        data = message.encode(version)
        decode = best_ns(partial(type(message).decode, data, version))
        encode = best_ns(partial(message.encode_parts, version))
        print(f"{title:<22}{version:>8}{len(data):>8}{decode:>12.0f}{encode:>12.0f}")
    header = b"\0\0\0\x08\0\0\0\x07\0\x07rdkafka" + bytes(100)
    print(f"{'request header':<22}{1:>8}{17:>8}{best_ns(lambda: parse_request_header(header)):>12.0f}")


if __name__ == "__main__":
    main()
