"""The hosts of ACLs: an address, a network such as ``10.0.0.0/8`` (KIP-1276), or ``*``."""

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from twisted_kafka.system.numbers import decimal

HOSTS_MAX: Final = 1000
"""Most hosts, and most pairs of network and host, that are remembered: finding them costs more than a decision."""
_SLASH: Final = "/"
_MOST_BITS: Final = 128


@lru_cache(HOSTS_MAX)
def normal_host(host: str) -> str:
    """Return the shortest form of an IP address, and other text as it is.

    Java writes ``::1`` as ``0:0:0:0:0:0:0:1``, and IPv4 addresses in IPv6 ones as IPv4. What Kafka's ACLs deny is denied here.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(address if mapped is None else mapped)


def is_network(host: str) -> bool:
    """Return whether an ACL's host is meant as a network; it may be invalid."""
    return _SLASH in host


def network_of(host: str) -> IPv4Network | IPv6Network:
    """Return the network; bits after the prefix do not matter. Raises ValueError with a sentence."""
    address, _, length = host.partition(_SLASH)
    try:
        prefix_bits = decimal(length, _MOST_BITS)
        if prefix_bits is None:
            raise ValueError
        network = ip_network((address, prefix_bits), strict=False)
    except ValueError:
        raise ValueError(f"Invalid CIDR notation {host!r}: it is not valid as a network, as in 10.0.0.0/8 or fd00::/8") from None
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise ValueError(f"Invalid CIDR notation {host!r}: write the network of IPv4 addresses as one of IPv4")
    return network


@lru_cache(HOSTS_MAX)
def is_in_network(host: str, network: str) -> bool:
    """Return whether an address, in its shortest form, is in the network; False for an invalid one."""
    try:
        return ip_address(host) in network_of(network)
    except ValueError:
        return False
