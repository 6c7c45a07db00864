"""Principals of clients with a TLS certificate. (Kafka: DefaultKafkaPrincipalBuilder, SslPrincipalMapper.)

``ssl.principal.mapping.rules`` is a list of rules, of which the first that matches the distinguished name is used. ``DEFAULT``
keeps the name. ``RULE:pattern/replacement/`` must match the whole name and replaces it, with ``$1`` as the first group; a trailing
``L`` or ``U`` converts the result to lower or upper case. Slashes in patterns and replacements are escaped with a backslash.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.requests.kafka_principal import USER, KafkaPrincipal
from twisted_kafka.security.java_patterns import compiled, filled

_KEY: Final = "ssl.principal.mapping.rules"
_START: Final = "RULE:"
_DEFAULT: Final = "DEFAULT"


class NoMatchingRuleError(ValueError):
    """No rule matches a name."""


class MappingRule(NamedTuple):
    """One rule. Without a pattern it keeps any name."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """Return the new name, or None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # As Java's replaceAll: every match in the name is replaced, also partial ones.
        text = self.pattern.sub(lambda match: filled(self.replacement, match), name)
        return text.lower() if self.case == "L" else text.upper() if self.case == "U" else text


def ssl_principal_builder(rules: str) -> Callable[[str], KafkaPrincipal]:
    """Return a function from distinguished names to principals; raises ConfigError for invalid rules.

    The function raises NoMatchingRuleError.
    """
    parsed = parse_mapping_rules(rules)

    def principal_of(name: str) -> KafkaPrincipal:
        return KafkaPrincipal(USER, mapped_name(parsed, name))

    return principal_of


def mapped_name(rules: Sequence[MappingRule], name: str) -> str:
    """Return the result of the first rule that matches a distinguished name; raises NoMatchingRuleError."""
    for rule in rules:
        mapped = rule.apply(name)
        if mapped is not None:
            return mapped
    raise NoMatchingRuleError(f"no rule of {_KEY} matches the certificate's name {name}")


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """Parse a list of rules. An empty list matches no name, as in Kafka. Raises ConfigError."""
    rules: list[MappingRule] = []
    position = 0
    while position < len(text):
        if text[position] in ", \t\r\n":
            position += 1
        elif text.startswith(_DEFAULT, position):
            rules.append(MappingRule(None, "", ""))
            position = _end_of_rule(text, position + len(_DEFAULT))
        elif text.startswith(_START, position):
            pattern, position = _until_slash(text, position + len(_START))
            replacement, position = _until_slash(text, position)
            case = text[position : position + 1] if text[position : position + 1] in ("L", "U") else ""
            rules.append(MappingRule(_compile(pattern), replacement, case))
            position = _end_of_rule(text, position + len(case))
        else:
            raise _malformed(text, text[position:])
    return tuple(rules)


def _until_slash(text: str, start: int) -> tuple[str, int]:
    """Return the text before the next unescaped slash, and the position after it."""
    position = start
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text[position] == "/":
            return text[start:position], position + 1
        else:
            position += 1
    raise _malformed(text, text[start:])


def _end_of_rule(text: str, position: int) -> int:
    rest = text[position:].lstrip()
    if rest and not rest.startswith(","):
        raise _malformed(text, rest)
    return len(text) - len(rest)


def _malformed(text: str, at: str) -> ConfigError:
    allowed = "a list of DEFAULT and RULE:pattern/replacement/[LU]"
    return ConfigError(f"Invalid value {text!r} for {_KEY}: must be {allowed}; invalid at {at[:40]!r}")


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return compiled(pattern)
    except re.error as error:
        raise ConfigError(f"Invalid value {pattern!r} in {_KEY}: not a regular expression, {error}") from None
