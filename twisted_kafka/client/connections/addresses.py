"""Hosts that are IP addresses, not names."""

import ipaddress


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
