"""Applies ``connection_creation_rate`` of IP addresses from ``/config/ips``. (Kafka: IpConfigHandler.)"""

from collections.abc import Iterable, Mapping
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.network.accepting.connection_quotas import ConnectionQuotas
from twisted_kafka.network.accepting.host_names import UnknownHostError, addresses, numeric_addresses
from twisted_kafka.quota.entities import CONNECTION_CREATION_RATE, entity_name
from twisted_kafka.system import machine
from twisted_kafka.system.numbers import INT32_MAX, decimal
from twisted_kafka.timing.scheduler import IScheduler, ScheduledTask

RETRY_MS: Final = 60_000
"""How long until a host name that could not be resolved is looked up again."""

_log = Logger()


class IpConnectionRates:
    """Applies the quotas of IP addresses and follows their changes.

    Quotas of host names apply to the addresses that the name has when it is looked up. That happens on the scheduler's threads, and
    again after RETRY_MS if it fails: name servers may start later than the broker.
    """

    def __init__(self, configs: ConfigRepository, rates: ConnectionQuotas, scheduler: IScheduler) -> None:
        self._configs = configs
        self._rates = rates
        self._scheduler = scheduler
        self._lock = machine.Lock()
        self._wanted: dict[str, int] = {}
        """The rates of host names that have to be looked up, by name."""
        self._applied: dict[str, list[str]] = {}
        """The addresses of host names that have a rate."""
        self._task: ScheduledTask | None = None
        self._is_looking = False

    def start(self) -> None:
        """Apply the current quotas and follow changes."""
        self._configs.add_listener("ips", self.update)
        nodes = self._configs.names("ips")
        for node, config in zip(nodes, self._configs.each(f"ips/{node}" for node in nodes), strict=True):
            self.update(node, config)

    def update(self, node: str, config: Mapping[str, str]) -> None:
        """Apply the config of a node. An invalid one is logged and ignored."""
        text = config.get(CONNECTION_CREATION_RATE)
        rate = None if text is None else decimal(text, INT32_MAX)
        if text is not None and rate is None:
            _log.error(
                "Ignoring the invalid value {key}={text} of /config/ips/{node}", key=CONNECTION_CREATION_RATE, text=text, node=node
            )
            return
        name = entity_name(node)
        if name is None:
            self._rates.set_ip_rate(None, rate)
        elif found := numeric_addresses(name):
            self._rates.set_ip_rate(found[0], rate)
        else:
            self._update_host(name, rate)

    def _update_host(self, name: str, rate: int | None) -> None:
        with self._lock:
            if rate is None:
                self._wanted.pop(name, None)
                self._apply(name, (), None)
            else:
                self._wanted[name] = rate
                self._schedule(0)

    def _schedule(self, delay_ms: int) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task = self._scheduler.schedule_once("ip-connection-rates", self._look_up_wanted, delay_ms)

    def _look_up_wanted(self) -> None:
        with self._lock:
            if self._is_looking:  # it may take long, and the scheduler has few threads: that one looks again
                return
            self._is_looking = True
            wanted = dict(self._wanted)
        try:
            self._look_up(wanted)
        finally:
            with self._lock:
                self._is_looking = False
                is_new = any(wanted.get(name) != rate for name, rate in self._wanted.items())
                if self._wanted:
                    self._schedule(0 if is_new else RETRY_MS)

    def _look_up(self, wanted: Mapping[str, int]) -> None:
        for name, rate in wanted.items():
            try:
                found = addresses(name)
            except UnknownHostError as error:
                _log.error("The quota of /config/ips/{name} waits until the host can be resolved: {error}", name=name, error=error)
                continue
            with self._lock:
                if self._wanted.get(name) == rate:
                    del self._wanted[name]
                    self._apply(name, found, rate)

    def _apply(self, name: str, found: Iterable[str], rate: int | None) -> None:
        now = list(found)
        for address in self._applied.pop(name, ()):
            if address not in now:
                self._rates.set_ip_rate(address, None)
        for address in now:
            self._rates.set_ip_rate(address, rate)
        if now:
            self._applied[name] = now
