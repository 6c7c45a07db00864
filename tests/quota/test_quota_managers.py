import threading
from collections.abc import Mapping
from typing import Any

import pytest
from twisted.logger import capturedLogs
from zope.interface import implementer

from tests.support.quotas import Quotas, request_of
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ThrottlingQuotaExceededError
from twisted_kafka.quota import client_quota_manager
from twisted_kafka.quota.client_quota_callback import ClientQuotaType, IClientQuotaCallback, QuotaEntity
from twisted_kafka.quota.client_quota_manager import EXPIRATION_MS, ClientBandwidthQuotaManager
from twisted_kafka.quota.controller_mutation_quota_manager import UNBOUNDED

NODES = {
    "users/al%40ice": {"producer_byte_rate": "100", "SCRAM-SHA-256": "secret"},
    "users/al%40ice/clients/fast": {"producer_byte_rate": "1000"},
    "users/<default>": {"producer_byte_rate": "50"},
    "clients/app": {"consumer_byte_rate": "7"},
}


def use(manager: ClientBandwidthQuotaManager, context: RequestContext, size_bytes: int) -> int:
    """Record bytes; return how long the client has to wait."""
    return manager.sensor_of(context).record(size_bytes, manager.now_ms())


def limits(quotas: Quotas) -> dict[str, float]:
    """What a second may have, by user and client id, of bytes produced."""
    produce = quotas.managers.produce
    clients = [("al@ice", "slow"), ("al@ice", "fast"), ("bob", "slow")]
    return {" ".join(client): produce.sensor_of(request_of(*client)).limit for client in clients}


def test_quotas_apply_from_the_start() -> None:
    quotas = Quotas(NODES)
    assert limits(quotas) == {"al@ice slow": 100, "al@ice fast": 1000, "bob slow": 50}
    assert quotas.managers.fetch.sensor_of(request_of("al@ice", "app")).limit == 7
    assert quotas.managers.is_enabled
    assert quotas.managers.produce.is_enabled
    assert not quotas.managers.request.is_enabled


def test_changes_apply_to_the_clients_that_are_known_already() -> None:
    quotas = Quotas(NODES)
    limits(quotas)
    quotas.configs.write("users/al%40ice", {"producer_byte_rate": "300"})
    quotas.configs.write("users/<default>/clients/<default>", {"producer_byte_rate": "60"})
    quotas.configs.write("users/al%40ice/clients/fast", {})
    assert limits(quotas) == {"al@ice slow": 300, "al@ice fast": 300, "bob slow": 60}
    for path in list(quotas.configs.nodes):
        quotas.configs.write(path, {})
    assert set(limits(quotas).values()) == {float("inf")}


def test_what_changes_nothing_asks_for_no_limit_again() -> None:
    """A config has the quotas of all types: three of four are not set, usually, and each client has a sensor of each type."""
    quotas = Quotas(NODES)
    limits(quotas)
    generation = quotas.managers.generation
    quotas.configs.write("users/al%40ice", dict(NODES["users/al%40ice"]))
    assert quotas.managers.generation is generation
    quotas.configs.write("users/al%40ice", {"producer_byte_rate": "300"})
    assert quotas.managers.generation is not generation


def test_a_value_that_is_no_number_leaves_the_quota_as_it_was() -> None:
    quotas = Quotas(NODES)
    for value in ("many", "nan"):
        with capturedLogs() as logs:
            quotas.configs.write("users/<default>", {"producer_byte_rate": value})
        assert "producer_byte_rate=" + value in logs[0]["log_format"].format(**logs[0])
    assert limits(quotas)["bob slow"] == 50


def test_a_user_s_clients_share_their_quota() -> None:
    produce = Quotas(NODES).managers.produce
    assert use(produce, request_of("al@ice", "a"), 900) == 0
    assert use(produce, request_of("al@ice", "b"), 900) == 8000
    assert use(produce, request_of("bob", "a"), 500) == 0
    assert use(produce, request_of("bob", None), 1) > 0


def test_a_consumer_gets_no_more_at_once_than_it_may_have_in_all_windows() -> None:
    managers = Quotas(NODES).managers
    assert managers.most_fetched(request_of("bob", "app")) == 70
    assert managers.most_fetched(request_of("bob", "other")) == float("inf")
    assert Quotas().managers.most_fetched(request_of()) == float("inf")


def test_windows_are_those_of_the_configuration() -> None:
    quotas = Quotas(NODES, quota_window_num=3, quota_window_size_seconds=2, controller_quota_window_num=5)
    assert quotas.managers.most_fetched(request_of("bob", "app")) == 28
    quotas.configs.write("clients/app", {"controller_mutation_rate": "2"})
    mutations = quotas.managers.controller_mutation.quota_for(request_of("bob", "app"), 0)
    mutations.record(10)
    assert quotas.measured("ControllerMutation", "tokens") == {"client-id:app": 0}


def test_idle_sensors_expire() -> None:
    quotas = Quotas(NODES)
    produce = quotas.managers.produce
    use(produce, request_of("bob"), 1)
    quotas.clock.advance_ms(EXPIRATION_MS)
    use(produce, request_of("al@ice"), 1)
    quotas.clock.advance_ms(1)
    quotas.scheduler.run_due()
    assert quotas.measured("Produce", "byte-rate").keys() == {"user:al%40ice"}
    assert use(produce, request_of("bob"), 1) == 0
    assert len(produce) == 2


def test_clients_with_ever_new_ids_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quota_manager, "MAX_SENSORS", 20)
    quotas = Quotas({"clients/<default>": {"producer_byte_rate": "5"}})
    produce = quotas.managers.produce
    for number in range(100):
        quotas.clock.advance_ms(1)
        use(produce, request_of(client_id="old"), 1)
        use(produce, request_of(client_id=f"client-{number}"), 1)
        assert len(produce) <= 20
    assert {"client-id:old", "client-id:client-99"} <= quotas.measured("Produce", "byte-rate").keys()


def test_mutations_are_refused_or_only_waited_for() -> None:
    quotas = Quotas({"clients/app": {"controller_mutation_rate": "2"}})
    mutations = quotas.managers.controller_mutation
    old = mutations.quota_for(request_of(version=4), strict_since=5)
    old.record(32)  # 22 tokens are there
    assert old.throttle_ms() == 5000
    quotas.clock.advance_ms(1000)
    assert old.throttle_ms() == 4000
    new = mutations.quota_for(request_of(version=5), strict_since=5)
    with pytest.raises(ThrottlingQuotaExceededError):
        new.record(1)
    assert new.throttle_ms() == 4000
    automatic = mutations.permissive_quota_for(request_of(version=5))
    automatic.record(2)
    assert automatic.throttle_ms() == 5000
    assert quotas.measured("ControllerMutation", "tokens") == {"client-id:app": -10}
    assert quotas.measured("ControllerMutation", "mutation-rate") == {"client-id:app": 3.4}
    quotas.clock.advance_ms(6000)
    assert automatic.throttle_ms() == 0


def test_without_a_quota_mutations_are_not_counted() -> None:
    mutations = Quotas().managers.controller_mutation
    assert mutations.quota_for(request_of(), 0) is mutations.permissive_quota_for(request_of()) is UNBOUNDED
    UNBOUNDED.record(1_000_000)
    assert UNBOUNDED.throttle_ms() == 0


@implementer(IClientQuotaCallback)
class ByTeam:
    """Users named ``team-name`` share the quota of their team, which depends on how many topics there are."""

    made: list["ByTeam"]

    def __init__(self) -> None:
        self.made.append(self)
        self.configs: Mapping[str, str] = {}
        self.updates: list[Any] = []
        self.limit = 1000.0
        self.must_reset = self.is_closed = False

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def quota_metric_tags(self, quota_type: ClientQuotaType, principal: Any, client_id: str) -> Mapping[str, str]:
        return {"team": principal.name.partition("-")[0]}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        return self.limit if metric_tags["team"] == "red" else None

    def update_quota(self, quota_type: ClientQuotaType, entity: QuotaEntity, limit: float) -> None:
        self.updates.append((quota_type, entity, limit))

    def remove_quota(self, quota_type: ClientQuotaType, entity: QuotaEntity) -> None:
        self.updates.append((quota_type, entity, None))

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        required, self.must_reset = self.must_reset, False
        return required

    def update_cluster_metadata(self, cluster: Any) -> bool:
        self.limit = float(cluster)
        return True

    def close(self) -> None:
        self.is_closed = True


def test_a_class_of_the_operator_s_decides() -> None:
    ByTeam.made = []
    name = f"{__name__}.ByTeam"
    quotas = Quotas({"users/a": {"producer_byte_rate": "5"}}, client_quota_callback_class=name)
    (callback,) = ByTeam.made
    assert callback.configs["client.quota.callback.class"] == name
    assert (ClientQuotaType.PRODUCE, QuotaEntity("a"), 5) in callback.updates
    assert quotas.managers.is_enabled
    produce = quotas.managers.produce
    assert use(produce, request_of("red-alice"), 10_000) == 0
    assert use(produce, request_of("red-bob"), 10_000) == 10_000
    assert use(produce, request_of("blue-carol"), 1_000_000) == 0
    assert quotas.measured("Produce", "byte-rate") == {"team:red": 2000, "team:blue": 100_000}
    callback.limit, callback.must_reset = 4000, True
    assert use(produce, request_of("red-bob"), 0) == 0
    quotas.managers.cluster_changed(100)
    assert use(produce, request_of("red-bob"), 0) > 0
    quotas.managers.close()
    assert callback.is_closed


@pytest.mark.parametrize("name", ["no.such.Class", "builtins.object", f"{__name__}.limits"])
def test_a_class_that_cannot_be_loaded_refuses_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=r"client\.quota\.callback\.class"):
        Quotas(client_quota_callback_class=name)


def test_nothing_is_lost_while_quotas_change_under_load() -> None:
    """Four threads record bytes of many clients while quotas come and go: the bytes of all sensors are those that were recorded."""
    quotas = Quotas({"clients/<default>": {"producer_byte_rate": "1000000"}})
    produce = quotas.managers.produce
    failures: list[BaseException] = []
    begun = threading.Barrier(5)

    def record(number: int) -> None:
        begun.wait()
        connections = [request_of(f"user-{at % 7}", f"client-{(at + number) % 11}") for at in range(77)]
        try:
            for at in range(2000):
                context = connections[at % 77]
                sensors = quotas.managers.sensors_of(context)
                (sensors.produce or sensors.look_up_produce(produce, context)).record(1, quotas.clock.monotonic_ns())
        except BaseException as error:  # noqa: BLE001 the test's thread tells
            failures.append(error)

    threads = [threading.Thread(target=record, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    changes = 0
    while not changes or any(thread.is_alive() for thread in threads):
        entity = ("users/user-1", "users/user-2/clients/client-3", "users/<default>", "clients/client-4")[changes % 4]
        quotas.configs.write(entity, {"producer_byte_rate": "5"} if changes % 8 < 4 else {})
        quotas.managers.expire()
        changes += 1
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(quotas.measured("Produce", "byte-rate").values()) == pytest.approx(8000 / 10)
