"""Names of Kerberos principals, and the rules that make short names of them. (Kafka: KerberosName, KerberosShortNamer.)

The rules of ``sasl.kerberos.principal.to.local.rules`` are tried in turn, and the first that fits gives the short name:

    DEFAULT                                          the first component, if the realm is the default one
    RULE:[n:text](pattern)s/pattern/replacement/g/L  for names with n components

``text`` has ``$1`` and ``$2`` for the components and ``$0`` for the realm. If it matches the first pattern as a whole, matches of
the second one are replaced in it: the first, or with ``g`` all. ``/L`` or ``/U`` at the end converts the result to lower or upper
case. All parts after ``[n:text]`` may be missing. A short name has no ``/`` and no ``@``. Names have one component or two: rules
for others never fit.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from typing_extensions import override

from twisted_kafka.security.java_patterns import compiled, ensure_replacement, filled

_DEFAULT: Final = "DEFAULT"
_NAME: Final = re.compile(r"(?P<service>[^/@]*)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE: Final = re.compile(
    r"RULE:\[(?P<components>[0-9]+):(?P<text>[^]]*)]"
    r"(?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?"
    r"/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_NOT_SHORT: Final = re.compile("[/@]")


class KerberosNameError(ValueError):
    """A name that is no principal's, or that has no short name."""


class KerberosName(NamedTuple):
    """A principal's name, ``service/host@REALM`` or ``user@REALM``; a name without an ``@`` has neither host nor realm."""

    service_name: str
    host_name: str | None
    realm: str | None

    @override
    def __str__(self) -> str:
        host = "" if self.host_name is None else f"/{self.host_name}"
        realm = "" if self.realm is None else f"@{self.realm}"
        return f"{self.service_name}{host}{realm}"


def parse_name(text: str) -> KerberosName:
    """Parse a name; raises KerberosNameError."""
    match = _NAME.fullmatch(text)
    # Kerberos writes separators that are part of a component with a backslash. Kafka would take a\/b@R for a service a\ on b.
    if "\\" in text or (match is None and "@" in text):
        raise KerberosNameError(f"Malformed Kerberos name: {text}")
    if match is None:
        return KerberosName(text, None, None)
    return KerberosName(match["service"], match["host"], match["realm"])


class Substitution(NamedTuple):
    """The ``s/pattern/replacement/g`` of a rule."""

    pattern: re.Pattern[str]
    replacement: str
    limit: int
    """How many matches are replaced; 0: all."""

    def apply(self, text: str) -> str:
        """Return the text with its matches replaced."""
        return self.pattern.sub(lambda match: filled(self.replacement, match), text, self.limit)


class Rule(NamedTuple):
    """One rule but ``DEFAULT``."""

    source: str
    components: int
    text: str
    match: re.Pattern[str] | None
    substitution: Substitution | None
    case: str

    def apply(self, parameters: Sequence[str]) -> str | None:
        """Return the short name of a name whose realm and components these are; None if the rule does not fit."""
        if len(parameters) - 1 != self.components:
            return None
        text = _PARAMETER.sub(lambda reference: parameters[int(reference[1])], self.text)
        if self.match is not None and self.match.fullmatch(text) is None:
            return None
        name = text if self.substitution is None else self.substitution.apply(text)
        _ensure_short(name, self.source)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class DefaultRule(NamedTuple):
    """``DEFAULT``."""

    realm: str

    def apply(self, parameters: Sequence[str]) -> str | None:
        return parameters[1] if parameters[0] == self.realm else None


def parse_rules(rules: Sequence[str], default_realm: Callable[[], str]) -> tuple[Rule | DefaultRule, ...]:
    """Parse the list of rules; raises ValueError. ``default_realm`` is called if a rule needs the realm."""
    return tuple(DefaultRule(default_realm()) if rule == _DEFAULT else _parse_rule(rule) for rule in rules)


def short_name(rules: Sequence[Rule | DefaultRule], name: KerberosName) -> str:
    """Return the short name by the first rule that applies; raises KerberosNameError if no rule does."""
    if name.realm is None:
        return name.service_name
    parameters = [name.realm, name.service_name] + ([] if name.host_name is None else [name.host_name])
    for rule in rules:
        found = rule.apply(parameters)
        if found is not None:
            return found
    raise KerberosNameError(f"No rules apply to {name}")


def _parse_rule(rule: str) -> Rule:
    parts = _RULE.fullmatch(rule)
    if parts is None:
        raise ValueError(f"{rule!r} is neither DEFAULT nor RULE:[n:text](pattern)s/pattern/replacement/g/L")
    components = int(parts["components"])
    for number in _PARAMETER.findall(parts["text"]):
        if not number or int(number) > components:
            raise ValueError(f"{rule!r} refers to ${number}, which a name with {components} components does not have")
    match = None if parts["match"] is None else _compiled(parts["match"], rule)
    substitution = None
    if parts["pattern"] is not None:
        substitution = Substitution(_compiled(parts["pattern"], rule), parts["replacement"], 0 if parts["all"] else 1)
        try:
            ensure_replacement(substitution.replacement, substitution.pattern)
        except ValueError as error:
            raise ValueError(f"the replacement in {rule!r} is not one: {error}") from None
    return Rule(rule, components, parts["text"], match, substitution, parts["case"] or "")


def _compiled(pattern: str, rule: str) -> re.Pattern[str]:
    try:
        return compiled(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} in {rule!r} is not a regular expression: {error}") from None


def _ensure_short(name: str, rule: str) -> None:
    if _NOT_SHORT.search(name):
        raise KerberosNameError(f"Non-simple name {name} after auth_to_local rule {rule}")
