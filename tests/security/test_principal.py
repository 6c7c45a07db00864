import pytest

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.security.principal import NoMatchingRuleError, parse_mapping_rules, ssl_principal_builder

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U", "DUKE"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2\\/$4/L", "duke@serviceusers/us"),
        ("RULE:^CN=nobody$/x/ , RULE:^CN=(.*?),.*$/$1/,DEFAULT", "Duke"),
        ("RULE:^CN=nobody$/x/,DEFAULT", NAME),
        ("RULE:^cn=(?<who>.*?),.*$/${who}/,RULE:^CN=(?<who>.*?),.*$/${who}!/", "Duke!"),
        ("RULE:^CN=(.*?),.*$/$1$2\\$/", "Duke$2$"),
        ("RULE:^CN=(.*?),.*$/$12/", "Duke2"),
        ("RULE:CN=(.*?)/<$1>/", "<>Duke,OU=ServiceUsers,O=Org,C=US"),  # what Java's replaceAll makes of it
        ("RULE:^CN=(.*?),OU=[^\\/]+\\/?.*$/$1/", "Duke"),
    ],
)
def test_rules(rules: str, expected: str) -> None:
    assert ssl_principal_builder(rules)(NAME) == KafkaPrincipal("User", expected)


@pytest.mark.parametrize(
    "rules", ["deny", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/L DEFAULT", "DEFAULTS", "RULE:(/b/", "DEFAULT;DEFAULT"]
)
def test_what_is_no_list_of_rules_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        parse_mapping_rules(rules)


def test_a_name_that_no_rule_fits_has_no_principal() -> None:
    for rules in ("RULE:^CN=x$/y/", ""):
        with pytest.raises(NoMatchingRuleError, match="no rule"):
            ssl_principal_builder(rules)(NAME)
