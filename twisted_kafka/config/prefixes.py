"""Keys with prefixes: settings of one listener, of one SASL mechanism, and settings passed to plug-ins.

The declaration of a key says which prefixes it may have (``ConfigKey.scope``).
"""

from collections.abc import Collection
from typing import Final

from twisted_kafka.config.keys import BROKER_KEYS
from twisted_kafka.config.keys.declare import BROKER, MECHANISM

_LISTENER: Final = "listener.name."
_PASSED_ON: Final = ("rsm.config.", "rlmm.config.", "client.quota.callback.static.", "confluent.")
_OF_MECHANISMS: Final = tuple(key.name for key in BROKER_KEYS.values() if key.scope == MECHANISM)

# Settings of classes that ship with Kafka; the broker does not declare them, but configurations contain them.
_PLUGIN_KEYS: Final = frozenset(("super.users", "allow.everyone.if.no.acl.found", "kafka.csv.metrics.reporter.enabled"))

_LOOKS_LIKE: Final = 0.85
"""A name with this similarity (difflib's ratio) to one of Kafka's counts as misspelt."""


def base_key(name: str) -> str | None:
    """Return the key that `name` sets without its prefixes, `name` itself for a plug-in's setting, None for an unknown key."""
    if name in BROKER_KEYS or name in _PLUGIN_KEYS or name.startswith(_PASSED_ON):
        return name
    listener, rest = _split(name)
    if listener and rest in BROKER_KEYS:
        return rest if BROKER_KEYS[rest].scope != BROKER else None
    for key in _OF_MECHANISMS:
        if rest.endswith("." + key) and "." not in rest.removesuffix("." + key):
            return key
    return None


def similar_key(name: str) -> str | None:
    """Return the key that an unknown name looks like, or None."""
    import difflib  # only mistakes need it

    near = difflib.get_close_matches(name, BROKER_KEYS, 1, _LOOKS_LIKE)
    return near[0] if near else None


def why_without_effect(name: str, listeners: Collection[str]) -> str | None:
    """Return why a setting with the prefix of a listener has no effect; None if it may have one, or the key is unknown.

    ``listeners`` are the names of the broker's listeners.
    """
    listener, rest = _split(name)
    if not listener:
        return None
    if rest in BROKER_KEYS and BROKER_KEYS[rest].scope == BROKER:
        return f"{rest} is a setting of the whole broker: set it without the prefix {_LISTENER}{listener}."
    if base_key(name) is None or listener in map(str.lower, listeners):
        return None
    if listener.lower() in map(str.lower, listeners):
        return f"the prefix of a listener is in lower case: {_LISTENER}{listener.lower()}."
    return f"there is no listener {listener}, but {', '.join(listeners)}"


def _split(name: str) -> tuple[str, str]:
    """Return the listener of a prefix, empty without one, and the rest."""
    if not name.startswith(_LISTENER):
        return "", name
    listener, _, rest = name[len(_LISTENER) :].partition(".")
    return listener, rest
