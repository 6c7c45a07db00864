"""Keys with prefixes: settings of one listener, of one SASL mechanism, and settings passed to plug-ins."""

from twisted_kafka.config.keys import BROKER_KEYS

_LISTENER = "listener.name."
_PASSED_ON = ("rsm.config.", "rlmm.config.", "client.quota.callback.static.", "confluent.")
_LISTENER_SCOPED = (
    "ssl.",
    "sasl.",
    "principal.builder.class",
    "connections.max.reauth.ms",
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
)
_MECHANISM_SCOPED = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

# Settings of classes that ship with Kafka; the broker does not declare them, but configurations contain them.
_PLUGIN_KEYS = frozenset(("super.users", "allow.everyone.if.no.acl.found", "kafka.csv.metrics.reporter.enabled"))


def base_key(name: str) -> str | None:
    """Return the key that `name` sets without its prefixes, `name` itself for a plug-in's setting, None for an unknown key."""
    if name in BROKER_KEYS:
        return name
    if name in _PLUGIN_KEYS or name.startswith(_PASSED_ON):
        return name
    rest = name
    if name.startswith(_LISTENER):
        rest = name[len(_LISTENER) :].partition(".")[2]
        if rest in BROKER_KEYS and rest.startswith(_LISTENER_SCOPED):
            return rest
    for key in _MECHANISM_SCOPED:
        if rest.endswith("." + key) and "." not in rest.removesuffix("." + key):
            return key
    return None
