import base64
from collections.abc import Iterator

import pytest

from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.security.delegation_tokens import DelegationTokenManager, TokenSettings
from twisted_kafka.security.scram.credentials import make_credential
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS, ScramMechanism, salted_password
from twisted_kafka.security.scram.token_credentials import TokenCredentials
from twisted_kafka.timing.clock import ManualClock

ALICE = KafkaPrincipal("User", "alice")


class Stage:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore(":memory:", threaded=False)
        self.manager = DelegationTokenManager(self.store, self.clock, TokenSettings("key", 1000, 5000, 1000))
        self.manager.startup()
        self.credentials = TokenCredentials(self.manager, self.clock)


@pytest.fixture
def stage() -> Iterator[Stage]:
    found = Stage()
    yield found
    found.store.close()


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_the_password_is_the_secret_in_base64(stage: Stage, mechanism: ScramMechanism) -> None:
    token = stage.manager.create(ALICE, ALICE, [], 0)
    found = stage.credentials.token_credential(mechanism.name, token.token_id)
    assert found is not None
    credential, owner, expires_ms = found
    assert (owner, expires_ms) == ("alice", token.expires_ms)
    salted = salted_password(mechanism, base64.b64encode(token.hmac), credential.salt, credential.iterations)
    assert credential == make_credential(mechanism, credential.salt, salted, credential.iterations)
    assert stage.credentials.token_credential(mechanism.name, token.token_id) == found


def test_a_renewed_token_keeps_its_credential(stage: Stage) -> None:
    token = stage.manager.create(ALICE, ALICE, [], 0)
    before = stage.credentials.token_credential("SCRAM-SHA-256", token.token_id)
    expires_ms = stage.manager.renew(ALICE, token.hmac, 3000)
    assert before is not None
    assert stage.credentials.token_credential("SCRAM-SHA-256", token.token_id) == (before[0], "alice", expires_ms)


def test_nobody_logs_in_with_an_expired_or_an_unknown_token(stage: Stage) -> None:
    token = stage.manager.create(ALICE, ALICE, [], 0)
    stage.clock.advance_ms(1000)
    assert stage.credentials.token_credential("SCRAM-SHA-256", token.token_id) is not None
    stage.clock.advance_ms(1)
    assert stage.credentials.token_credential("SCRAM-SHA-256", token.token_id) is None
    assert stage.credentials.token_credential("SCRAM-SHA-256", "unknown") is None
