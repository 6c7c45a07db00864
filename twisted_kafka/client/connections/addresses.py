"""Addresses that users write, and hosts that are IP addresses."""

import ipaddress

from twisted_kafka.system.numbers import MAX_PORT, decimal


def parse_address(text: str, least_port: int = 1) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; raise ValueError."""
    host, _, digits = text.rpartition(":")
    port = decimal(digits, MAX_PORT)
    if not host or port is None or port < least_port:
        raise ValueError(f"{text!r} is not an address: expected HOST:PORT, as in 127.0.0.1:9092")
    return host.strip("[]"), port


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
