"""Names of principals, and the rules that shorten them."""

import pytest

from tests.support.security.kerberos_rules import BAD, LATE, NAMES, REALM, SHORT
from twisted_kafka.security.kerberos.names import KerberosNameError, parse_name, parse_rules, short_name


def shortened(rules: str, name: str) -> str | None:
    parsed = parse_rules(rules.split(","), lambda: REALM)
    try:
        return short_name(parsed, parse_name(name))
    except KerberosNameError:
        return None


@pytest.mark.parametrize("rules", SHORT)
def test_the_first_rule_that_fits_gives_the_short_name(rules: str) -> None:
    assert tuple(shortened(rules, name) for name in NAMES) == SHORT[rules]


@pytest.mark.parametrize("rule", BAD + LATE)
def test_what_is_no_rule_is_refused_in_one_line(rule: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_rules(["DEFAULT", rule], lambda: REALM)
    assert repr(rule) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_names_are_written_as_they_are_read() -> None:
    for name in ("alice@R", "kafka/host@R", "alice"):
        assert str(parse_name(name)) == name


@pytest.mark.parametrize("name", ["a\\/b@R", "a\\@b@R", "a\\b@R", "a\\b"])
def test_separators_in_a_component_are_not_read(name: str) -> None:
    with pytest.raises(KerberosNameError, match="Malformed"):
        parse_name(name)


def test_the_realm_is_asked_for_only_if_a_rule_needs_it() -> None:
    def no_realm() -> str:
        raise AssertionError("nobody needs it")

    assert short_name(parse_rules(["RULE:[1:$1]"], no_realm), parse_name("alice@R")) == "alice"
