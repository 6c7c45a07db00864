"""``connection_creation_rate`` of addresses, from ``/config/ips`` to what enforces it. (Kafka: IpConfigHandler.)"""

from collections.abc import Mapping
from typing import Protocol

from twisted.logger import Logger

from twisted_kafka.network.accepting.host_names import UnknownHostError, addresses
from twisted_kafka.quota.entities import CONNECTION_CREATION_RATE, entity_name
from twisted_kafka.quota.interfaces import IConfigs

_log = Logger()


class IIpRates(Protocol):
    """What enforces the rates: ConnectionQuotas."""

    def set_ip_rate(self, address: str | None, rate: int | None) -> None:
        """Set the rate of an address, or with None that of all others; None takes a rate back."""


class IpConnectionRates:
    """Follows the quotas of addresses."""

    def __init__(self, configs: IConfigs, rates: IIpRates) -> None:
        self._configs = configs
        self._rates = rates

    def start(self) -> None:
        """Set what there is, and follow changes."""
        self._configs.add_listener("ips", self.update)
        for node in self._configs.names("ips"):
            self.update(node, self._configs.config(f"ips/{node}"))

    def update(self, node: str, config: Mapping[str, str]) -> None:
        """Set what a node says; one that cannot be understood is passed over."""
        text = config.get(CONNECTION_CREATION_RATE)
        if text is not None and not text.isdecimal():
            _log.error("{key}={text} of /config/ips/{node} is passed over", key=CONNECTION_CREATION_RATE, text=text, node=node)
            return
        rate = None if text is None else int(text)
        name = entity_name(node)
        if name is None:
            self._rates.set_ip_rate(None, rate)
            return
        try:
            found = addresses(name)
        except UnknownHostError as error:
            _log.error("The quota of /config/ips/{node} is ignored, the host is unknown: {error}", node=node, error=error)
            return
        for address in found:
            self._rates.set_ip_rate(address, rate)
