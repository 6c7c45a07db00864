"""Which hosts of ACLs are networks."""

import pytest

from twisted_kafka.security.authorizer.acl_hosts import network_of


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.1.2.3/08", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("10.0.0.1/32", "10.0.0.1/32"),
        ("fe80::1/64", "fe80::/64"),
        ("::/0", "::/0"),
    ],
)
def test_bits_after_the_prefix_do_not_matter(host: str, network: str) -> None:
    assert str(network_of(host)) == network


@pytest.mark.parametrize(
    "host",
    [
        *("10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0/8", "/8", "abc/8", "*/8", " 10.0.0.0/8", "10.0.0.0/8 ", "300.0.0.0/8"),
        *("10.0.0.0/255.0.0.0", "10.0.0.0/0.255.255.255", "10.0.0.0/\u0668", "::1/129", "2001:db8::/x", "a/b/c"),
        "::ffff:10.0.0.0/104",
    ],
)
def test_what_is_not_a_network_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"^Invalid CIDR notation"):
        network_of(host)
