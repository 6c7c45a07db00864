"""Which clients a subscription to client metrics may select: expressions that an adversary's names cannot make slow."""

import pytest

from twisted_kafka.config.client_metrics import ClientMetricsConfig
from twisted_kafka.protocol.errors import InvalidConfigurationError


def parsed(match: str) -> ClientMetricsConfig:
    return ClientMetricsConfig.parse({"metrics": "*", "match": match})


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("client_id=shop", "shop"),
        ("client_id=shop.*", "shop-1"),
        ("client_id=.*shop.*eu.*", "my-shop-in-eu-1"),
        ("client_id=(shop|till)-[0-9]+(-eu)?", "till-12-eu"),
        (r"client_source_address=\d+[.]\d+[.]\d+[.]\d+", "10.0.0.1"),
        ("client_software_version=(?i)v(?=3)(?:[0-9]+[.]){2}[0-9]?", "V3.9.0"),
        ("client_software_name=(a)?(?(1)b|c)", "ab"),
    ],
)
def test_expressions_that_are_matched_in_time(selector: str, text: str) -> None:
    name = selector.partition("=")[0]
    assert parsed(selector).applies_to({name: text})
    assert not parsed(selector).applies_to({name: text + "\n"})


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(?:a*)*b", "(?:(?:a?)+b?)+c", "(?:x+x+)+y", ".*.*.*.*x", "(?=(a+)+b)a", "(a)?(?(1)(b+)+|c)d"],
)
def test_expressions_that_may_take_minutes_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="may take minutes"):
        parsed(f"client_id={pattern}")


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}"])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="regular expression"):
        parsed(f"client_id={pattern}")
