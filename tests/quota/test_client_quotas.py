import pytest

from tests.support.fake import Fake
from tests.support.quotas import Configs
from twisted_kafka.network.accepting.host_names import UnknownHostError
from twisted_kafka.protocol.errors import InvalidRequestError, UnsupportedVersionError
from twisted_kafka.quota import ip_rates
from twisted_kafka.quota.client_quotas import ClientQuotas, Component, Match, Operation, ensure_filter_type
from twisted_kafka.quota.entities import entity_name, node_name
from twisted_kafka.quota.ip_rates import IpConnectionRates
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler

RATE = "connection_creation_rate"


FULL = {
    "ips/127.0.0.1": {RATE: "5"},
    "ips/<default>": {RATE: "50"},
    "ips/10.0.0.1": {},
    "users/al%40ice": {"producer_byte_rate": "100", "SCRAM-SHA-256": "secret"},
    "users/<default>/clients/app": {"request_percentage": "12.5"},
    "users/bob/clients/<default>": {"consumer_byte_rate": "7"},
    "clients/app": {"controller_mutation_rate": "1.0"},
}


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ({}, False, ["ip:127.0.0.1", "ip:-", "user:al@ice", "client-id:app user:-", "client-id:- user:bob", "client-id:app"]),
        ({}, True, []),
        ({"ip": Component(Match.SPECIFIED, None)}, True, ["ip:127.0.0.1", "ip:-"]),
        ({"ip": Component(Match.EXACT, "127.0.0.1")}, False, ["ip:127.0.0.1"]),
        ({"ip": Component(Match.DEFAULT, None)}, False, ["ip:-"]),
        ({"user": Component(Match.SPECIFIED, None)}, False, ["user:al@ice", "client-id:app user:-", "client-id:- user:bob"]),
        ({"user": Component(Match.SPECIFIED, None)}, True, ["user:al@ice"]),
        ({"client-id": Component(Match.EXACT, "app")}, False, ["client-id:app user:-", "client-id:app"]),
        ({"client-id": Component(Match.EXACT, "app"), "user": Component(Match.DEFAULT, None)}, True, ["client-id:app user:-"]),
    ],
)
def test_a_filter_finds(components: dict[str, Component], strict: bool, found: list[str]) -> None:
    described = ClientQuotas(Configs(FULL)).describe(components, strict=strict)
    names = [" ".join(f"{kind}:{name or '-'}" for kind, name in entity) for entity, _ in described]
    assert sorted(names) == sorted(found)


def test_only_configs_of_entities_that_match_are_read() -> None:
    nodes = {f"users/user-{number}": {"producer_byte_rate": "1"} for number in range(50)}
    configs = Configs(FULL | nodes)
    assert len(ClientQuotas(configs).describe({"user": Component(Match.EXACT, "user-7")}, strict=True)) == 1
    assert configs.reads == 1


def test_only_quotas_are_told() -> None:
    described = dict(ClientQuotas(Configs(FULL)).describe({"user": Component(Match.EXACT, "al@ice")}, strict=True))
    assert described == {(("user", "al@ice"),): {"producer_byte_rate": 100.0}}


def test_filters_that_make_no_sense() -> None:
    quotas = ClientQuotas(Configs())
    component = Component(Match.SPECIFIED, None)
    with pytest.raises(InvalidRequestError):
        ensure_filter_type("")
    with pytest.raises(UnsupportedVersionError):
        ensure_filter_type("group")
    with pytest.raises(InvalidRequestError):
        quotas.describe({"ip": component, "user": component}, strict=False)


def test_rates_of_addresses_are_set_and_taken_back() -> None:
    configs = Configs()
    quotas = ClientQuotas(configs)
    quotas.alter([("ip", "127.0.0.1")], [Operation(RATE, 3.0)], validate_only=True)
    assert configs.nodes == {}
    quotas.alter([("ip", "127.0.0.1")], [Operation(RATE, 3.0000000001)], validate_only=False)
    quotas.alter([("ip", None)], [Operation(RATE, 9)], validate_only=False)
    assert configs.nodes == {"ips/127.0.0.1": {RATE: "3"}, "ips/<default>": {RATE: "9"}}
    quotas.alter([("ip", "127.0.0.1")], [Operation(RATE, None), Operation("unheard.of", None)], validate_only=False)
    assert configs.nodes["ips/127.0.0.1"] == {}


@pytest.mark.parametrize(
    ("entity", "operation"),
    [
        ([], Operation(RATE, 1)),
        ([("ip", "")], Operation(RATE, 1)),
        ([("group", "x")], Operation(RATE, 1)),
        ([("ip", "127.0.0.1"), ("user", "a")], Operation(RATE, 1)),
        ([("ip", "not an address")], Operation(RATE, 1)),
        ([("ip", "127.0.0.1")], Operation("producer_byte_rate", 1)),
        ([("ip", "127.0.0.1")], Operation(RATE, 1.5)),
        ([("ip", "127.0.0.1")], Operation(RATE, -1)),
        ([("ip", "127.0.0.1")], Operation(RATE, float("nan"))),
        ([("ip", "127.0.0.1")], Operation(RATE, float("inf"))),
        ([("ip", "127.0.0.1")], Operation(RATE, 2.0**31)),
        ([("user", "a")], Operation(RATE, 1)),
        ([("user", "a")], Operation("producer_byte_rate", 1.5)),
    ],
)
def test_changes_that_make_no_sense(entity: list[tuple[str, str | None]], operation: Operation) -> None:
    configs = Configs()
    with pytest.raises(InvalidRequestError):
        ClientQuotas(configs).alter(entity, [operation], validate_only=False)
    assert configs.nodes == {}


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        ([("user", "al@ice"), ("client-id", "a/b")], "users/al%40ice/clients/a%2Fb"),
        ([("user", "alice"), ("client-id", None)], "users/alice/clients/<default>"),
        ([("user", "alice")], "users/alice"),
        ([("client-id", "app"), ("user", None)], "users/<default>/clients/app"),
        ([("user", None), ("client-id", None)], "users/<default>/clients/<default>"),
        ([("user", None)], "users/<default>"),
        ([("client-id", "app")], "clients/app"),
        ([("client-id", None)], "clients/<default>"),
    ],
)
def test_each_kind_of_client_has_its_node(entity: list[tuple[str, str | None]], path: str) -> None:
    configs = Configs()
    quotas = ClientQuotas(configs)
    wanted = [Operation("producer_byte_rate", 1024), Operation("request_percentage", 12.5)]
    quotas.alter(entity, wanted, validate_only=True)
    assert configs.nodes == {}
    quotas.alter(entity, wanted, validate_only=False)
    assert configs.nodes == {path: {"producer_byte_rate": "1024", "request_percentage": "12.5"}}
    filters = {kind: Component(Match.DEFAULT if name is None else Match.EXACT, name) for kind, name in entity}
    ((described, values),) = quotas.describe(filters, strict=True)
    assert (dict(described), values) == (dict(entity), {"producer_byte_rate": 1024, "request_percentage": 12.5})


def test_a_quota_leaves_the_user_s_credentials_as_they_are() -> None:
    configs = Configs({"users/alice": {"SCRAM-SHA-256": "secret", "consumer_byte_rate": "5"}})
    change = [Operation("producer_byte_rate", 7), Operation("consumer_byte_rate", None)]
    ClientQuotas(configs).alter([("user", "alice")], change, validate_only=False)
    assert configs.nodes["users/alice"] == {"SCRAM-SHA-256": "secret", "producer_byte_rate": "7"}


class Rates(Fake):
    def __init__(self) -> None:
        self.rates: dict[str | None, int | None] = {}

    def set_ip_rate(self, address: str | None, rate: int | None) -> None:
        self.rates[address] = rate


class Names:
    """A name server."""

    def __init__(self) -> None:
        self.hosts: dict[str, list[str]] = {}
        self.asked: list[str] = []

    def addresses(self, host: str) -> list[str]:
        self.asked.append(host)
        if host not in self.hosts:
            raise UnknownHostError("nobody knows it")
        return self.hosts[host]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(ip_rates, "addresses", names.addresses)
    return names


def test_rates_reach_what_enforces_them_at_the_start_and_later(names: Names) -> None:
    configs, rates = Configs(FULL.copy()), Rates()
    IpConnectionRates(configs, rates, ManualScheduler(ManualClock())).start()
    assert rates.rates == {"127.0.0.1": 5, None: 50, "10.0.0.1": None}
    configs.write("ips/%3A%3A1", {RATE: "8"})
    assert rates.rates["::1"] == 8
    configs.write("ips/127.0.0.1", {})
    assert rates.rates["127.0.0.1"] is None
    configs.write("ips/<default>", {RATE: "many"})
    assert rates.rates[None] == 50
    assert names.asked == []


def test_host_names_are_looked_up_on_the_scheduler_until_somebody_knows_them(names: Names) -> None:
    """The start does not wait for a name server, which may start later than the broker."""
    configs, rates, clock = Configs({"ips/a.example": {RATE: "5"}}), Rates(), ManualClock()
    scheduler = ManualScheduler(clock)
    IpConnectionRates(configs, rates, scheduler).start()
    assert names.asked == []
    scheduler.run_due()
    assert (names.asked, rates.rates) == (["a.example"], {})
    names.hosts = {"a.example": ["10.0.0.1", "10.0.0.2"], "b.example": ["10.0.0.3"]}
    configs.write("ips/b.example", {RATE: "7"})  # not only after the time of the other
    scheduler.run_due()
    assert rates.rates == {"10.0.0.1": 5, "10.0.0.2": 5, "10.0.0.3": 7}
    clock.advance_ms(10 * ip_rates.RETRY_MS)
    names.asked.clear()
    scheduler.run_due()
    assert names.asked == []


def test_a_host_name_that_nobody_knows_is_asked_for_again_after_a_while(names: Names) -> None:
    configs, rates, clock = Configs({"ips/a.example": {RATE: "5"}}), Rates(), ManualClock()
    scheduler = ManualScheduler(clock)
    IpConnectionRates(configs, rates, scheduler).start()
    scheduler.run_due()
    names.hosts["a.example"] = ["10.0.0.1"]
    clock.advance_ms(ip_rates.RETRY_MS - 1)
    scheduler.run_due()
    assert rates.rates == {}
    clock.advance_ms(1)
    scheduler.run_due()
    assert rates.rates == {"10.0.0.1": 5}


def test_the_rate_of_a_host_name_goes_from_the_addresses_that_it_had(names: Names) -> None:
    configs, rates, clock = Configs({"ips/a.example": {RATE: "5"}, "ips/b.example": {RATE: "6"}}), Rates(), ManualClock()
    names.hosts = {"a.example": ["10.0.0.1", "10.0.0.2"]}
    scheduler = ManualScheduler(clock)
    IpConnectionRates(configs, rates, scheduler).start()
    scheduler.run_due()
    names.hosts["a.example"] = ["10.0.0.2", "10.0.0.9"]
    configs.write("ips/a.example", {RATE: "7"})
    scheduler.run_due()
    assert rates.rates == {"10.0.0.1": None, "10.0.0.2": 7, "10.0.0.9": 7}
    names.hosts = {"b.example": ["10.0.0.3"]}
    configs.write("ips/a.example", {})
    configs.write("ips/b.example", {})
    clock.advance_ms(ip_rates.RETRY_MS)
    scheduler.run_due()
    assert rates.rates == {"10.0.0.1": None, "10.0.0.2": None, "10.0.0.9": None}


@pytest.mark.parametrize("name", ["alice", "a b", "a*b~c", "a/b", "::1", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"])
def test_names_of_nodes(name: str) -> None:
    node = node_name(name)
    assert set(node) <= set("abcdefghijklmnopqrstuvwxyzABCDEF0123456789%.-_")
    assert entity_name(node) == name


def test_host_names_are_looked_up_by_one_task_however_many_change(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    configs, rates, clock = Configs({"ips/a.example": {RATE: "5"}}), Rates(), ManualClock()
    scheduler = ManualScheduler(clock)
    IpConnectionRates(configs, rates, scheduler).start()
    names.hosts = {"a.example": ["10.0.0.1"], "b.example": ["10.0.0.2"]}
    under_way: list[str] = []

    def slow(host: str) -> list[str]:
        assert not under_way, "a second task looks up names"
        under_way.append(host)
        if host == "a.example":
            configs.write("ips/b.example", {RATE: "7"})
            scheduler.run_due()  # on another thread
        under_way.remove(host)
        return names.addresses(host)

    monkeypatch.setattr(ip_rates, "addresses", slow)
    scheduler.run_due()
    scheduler.run_due()
    assert rates.rates == {"10.0.0.1": 5, "10.0.0.2": 7}
