"""Quotas of addresses; filters and changes that make no sense."""

from tests.oracle.talk import Talk, scenario
from twisted_kafka.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
RATE = "connection_creation_rate"


def change(talk: Talk, version: int, entity: list[tuple[str, str | None]], *ops: OpData, only: bool = False) -> None:
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
