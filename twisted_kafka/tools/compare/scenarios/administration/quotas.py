"""Quotas of addresses, users and clients; filters and changes that make no sense; mutations beyond their quota."""

from collections.abc import Sequence

from twisted_kafka.protocol.compiler.message import Message
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from twisted_kafka.tools.compare.talk import Talk, scenario
from twisted_kafka.tools.compare.waits import pause

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
RATE = "connection_creation_rate"


def change(talk: Talk, version: int, entity: Sequence[tuple[str, str | None]], *ops: OpData, only: bool = False) -> None:
    named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    entry = AlterClientQuotasRequestEntryData(entity=named, ops=list(ops))
    talk.ask(AlterClientQuotasRequest(entries=[entry], validate_only=only), version)


def describe(talk: Talk, version: int, *components: tuple[str, int, str | None], strict: bool = False) -> None:
    wanted = [ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components]
    talk.ask(DescribeClientQuotasRequest(components=wanted, strict=strict), version)


@scenario(AlterClientQuotasRequest)
def quotas_of_addresses(talk: Talk, version: int) -> None:
    address, other = f"10.77.0.{version}", f"10.78.0.{version}"
    change(talk, version, [("ip", address)], OpData(key=RATE, value=7.0))
    change(talk, version, [("ip", other)], OpData(key=RATE, value=8.0), only=True)
    describe(talk, version, ("ip", EXACT, address))
    describe(talk, version, ("ip", EXACT, other))
    describe(talk, version, ("ip", SPECIFIED, None), strict=True)
    change(talk, version, [("ip", None)], OpData(key=RATE, value=1_000_000.0))
    describe(talk, version, ("ip", DEFAULT, None))
    change(talk, version, [("ip", address)], OpData(key=RATE, value=7.5))
    change(talk, version, [("ip", address)], OpData(key="producer_byte_rate", value=7.0))
    change(talk, version, [("ip", address)], OpData(key=RATE, remove=True), OpData(key="unheard.of", remove=True))
    change(talk, version, [("ip", None)], OpData(key=RATE, remove=True))
    describe(talk, version)
    describe(talk, version, strict=True)


@scenario(AlterClientQuotasRequest)
def quotas_of_nobody(talk: Talk, version: int) -> None:
    value = OpData(key=RATE, value=1.0)
    for entity in (
        [],
        [("ip", "")],
        [("user", "")],
        [("group", "x")],
        [("ip", "127.0.0.1"), ("user", "a")],
        [("ip", "nowhere.invalid")],
        [("user", "a")],
    ):
        change(talk, version, entity, value, only=True)
    change(talk, version, [("user", "a")], OpData(key="producer_byte_rate", value=1.5), only=True)


@scenario(DescribeClientQuotasRequest)
def filters(talk: Talk, version: int) -> None:
    describe(talk, version, ("", SPECIFIED, None))
    describe(talk, version, ("group", SPECIFIED, None))
    describe(talk, version, ("ip", SPECIFIED, None), ("user", SPECIFIED, None))
    describe(talk, version, ("ip", SPECIFIED, None), ("ip", DEFAULT, None))
    describe(talk, version, ("user", EXACT, "nobody"), ("client-id", DEFAULT, None), strict=True)
    describe(talk, version, ("user", 9, "nobody"))


@scenario(AlterClientQuotasRequest)
def quotas_of_users(talk: Talk, version: int) -> None:
    change(talk, version, [("user", "a")], OpData(key="producer_byte_rate", value=1024.0), only=True)


CLIENTS: list[list[tuple[str, str | None]]] = [
    [("user", "al@ice"), ("client-id", "a/b {n}")],
    [("user", "al@ice"), ("client-id", None)],
    [("user", "al@ice {n}")],
    [("user", None), ("client-id", "app {n}")],
    [("user", None), ("client-id", None)],
    [("user", None)],
    [("client-id", "app {n}")],
    [("client-id", None)],
]
LARGE = 1e15


@scenario(AlterClientQuotasRequest)
def quotas_of_all_kinds_of_clients(talk: Talk, version: int) -> None:
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    for each in CLIENTS:
        entity = [(kind, None if name is None else name.format(n=version)) for kind, name in each]
        exact = [(kind, DEFAULT if name is None else EXACT, name) for kind, name in entity]
        change(talk, version, entity, *(OpData(key=key, value=LARGE) for key in keys), only=True)
        describe(talk, version, *exact, strict=True)
        change(talk, version, entity, *(OpData(key=key, value=LARGE) for key in keys))
        describe(talk, version, *exact, strict=True)
        change(talk, version, entity, OpData(key=keys[0], remove=True), OpData(key=keys[2], value=1e9))
        describe(talk, version, *exact)
        change(talk, version, entity, *(OpData(key=key, remove=True) for key in keys))
        describe(talk, version, *exact)


@scenario(AlterClientQuotasRequest)
def values_of_quotas(talk: Talk, version: int) -> None:
    entity: list[tuple[str, str | None]] = [("user", f"values {version}")]
    for key in ("producer_byte_rate", "request_percentage", "controller_mutation_rate"):
        for value in (1.5, 0.0, 1e-9, 2.0**62, 12.000_000_1):
            change(talk, version, entity, OpData(key=key, value=value))
            describe(talk, version, ("user", EXACT, entity[0][1]))
    change(talk, version, entity, OpData(key="producer_byte_rate", value=-1.0))
    change(talk, version, entity, OpData(key="request_percentage", value=-1.0))
    change(talk, version, entity, OpData(key="connection_creation_rate", value=1.0))
    change(talk, version, entity, OpData(key="unheard.of", value=1.0))
    keys = ("producer_byte_rate", "request_percentage", "controller_mutation_rate")
    change(talk, version, entity, *(OpData(key=key, remove=True) for key in keys))


@scenario(CreateTopicsRequest, since=5)
def mutations_beyond_the_quota(talk: Talk, version: int) -> None:
    """Topics are created and deleted until the tokens are gone; from version 6 on, the next ones are refused."""
    client = f"mutations {version}"
    entity: list[tuple[str, str | None]] = [("client-id", client)]
    change(talk, 1, entity, OpData(key="controller_mutation_rate", value=0.5))
    pause(1)  # until the change has reached the quota
    names = [talk.topic(name) for name in "abc"]

    def ask(request: Message, version: int) -> None:
        # Each on a connection of its own: one that is throttled is muted until there are tokens again.
        talk.another(client.encode()).ask(request, version)

    def create(name: str, partitions: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version)

    create(names[0], 3)
    create(names[1], 12)
    create(names[2], 1)
    ask(CreateTopicsRequest(topics=[CreatableTopic(name=names[2], num_partitions=2)], validate_only=True), version)
    more = [CreatePartitionsTopic(name=names[0], count=4, assignments=None)]
    ask(CreatePartitionsRequest(topics=more, timeout_ms=30_000), min(version - 3, 3))
    ask(DeleteTopicsRequest(topic_names=[names[1]], timeout_ms=30_000), min(version - 1, 5))
    change(talk, 1, entity, OpData(key="controller_mutation_rate", remove=True))
