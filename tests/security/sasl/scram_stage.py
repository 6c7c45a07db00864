"""A connection that authenticates with SCRAM."""

from tests.security.sasl.sasl_stage import PLAIN_MODULE, SaslStage
from tests.support.security.scram_client import credential
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS

SETTINGS: dict[str, str | None] = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required;",
}


def staged(**settings: str) -> SaslStage:
    stage = SaslStage({**SETTINGS, **settings})
    for mechanism in SCRAM_MECHANISMS:
        stage.credentials.users[mechanism.name, "alice"] = credential("alice-secret", mechanism)
        stage.credentials.users[mechanism.name, "bob"] = credential("bob-secret", mechanism, 8192)
    return stage
