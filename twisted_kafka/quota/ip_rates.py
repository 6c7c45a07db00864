"""Applies ``connection_creation_rate`` of IP addresses from ``/config/ips``. (Kafka: IpConfigHandler.)"""

from collections.abc import Mapping
from typing import Protocol

from twisted.logger import Logger

from twisted_kafka.network.accepting.host_names import UnknownHostError, addresses
from twisted_kafka.quota.entities import CONNECTION_CREATION_RATE, entity_name
from twisted_kafka.quota.interfaces import IConfigs

_log = Logger()


class IIpRates(Protocol):
    """Enforces the rates: ConnectionQuotas."""

    def set_ip_rate(self, address: str | None, rate: int | None) -> None:
        """Set the rate of an address, or the default for None; a rate of None removes the setting."""


class IpConnectionRates:
    """Applies the quotas of IP addresses and follows their changes."""

    def __init__(self, configs: IConfigs, rates: IIpRates) -> None:
        self._configs = configs
        self._rates = rates

    def start(self) -> None:
        """Apply the current quotas and follow changes."""
        self._configs.add_listener("ips", self.update)
        for node in self._configs.names("ips"):
            self.update(node, self._configs.config(f"ips/{node}"))

    def update(self, node: str, config: Mapping[str, str]) -> None:
        """Apply the config of a node. An invalid one is logged and ignored."""
        text = config.get(CONNECTION_CREATION_RATE)
        if text is not None and not text.isdecimal():
            _log.error(
                "Ignoring the invalid value {key}={text} of /config/ips/{node}", key=CONNECTION_CREATION_RATE, text=text, node=node
            )
            return
        rate = None if text is None else int(text)
        name = entity_name(node)
        if name is None:
            self._rates.set_ip_rate(None, rate)
            return
        try:
            found = addresses(name)
        except UnknownHostError as error:
            _log.error("Ignoring the quota of /config/ips/{node}: the host cannot be resolved: {error}", node=node, error=error)
            return
        for address in found:
            self._rates.set_ip_rate(address, rate)
