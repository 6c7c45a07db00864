"""Somebody who hears every SCRAM message, and sends them again in any order, changed or mixed, gets in nowhere."""

import random

import pytest

from tests.security.sasl.sasl_stage import Client, SaslStage
from tests.security.sasl.scram_stage import staged
from tests.support.security.scram_client import ScramClient
from twisted_kafka.security.scram.formulas import SCRAM_SHA_256, SCRAM_SHA_512

pytestmark = pytest.mark.medium

MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512)


class Heard:
    """What was said in exchanges of alice's."""

    def __init__(self, stage: SaslStage, chance: random.Random) -> None:
        self.tokens: list[bytes] = []
        for number in range(6):
            scram = ScramClient("alice", "alice-secret", chance.choice(MECHANISMS), nonce=f"nonce{number}")
            client = stage.connect()
            client.handshake(scram.mechanism.name)
            first = client.authenticate(scram.first()).auth_bytes
            final = scram.final(first)
            answer = client.authenticate(final).auth_bytes
            assert client.principal == "User:alice"
            self.tokens += [scram.first(), first, final, answer]

    def token(self, chance: random.Random, last: bytes) -> bytes:
        """Return something that was heard, with the present exchange's nonce, a changed byte, or the half of another, or none."""
        token = chance.choice(self.tokens)
        kind = chance.randrange(5)
        if kind == 0:
            other = chance.choice(self.tokens)
            return token[: len(token) // 2] + other[len(other) // 2 :]
        if kind == 1 and b"r=" in token and b"r=" in last:
            nonce = last.split(b"r=")[1].split(b",")[0]
            head, _, tail = token.partition(b"r=")
            return head + b"r=" + nonce + (b"," + tail.partition(b",")[2] if b"," in tail else b"")
        if kind == 2:
            changed = bytearray(token)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(7)
            return bytes(changed)
        return token


def steps(seed: int, count: int) -> int:
    """Send ``count`` messages; return how many exchanges came as far as a challenge."""
    chance = random.Random(seed)
    stage = staged()
    heard = Heard(stage, chance)
    challenged = sent = 0
    while sent < count:
        client, last = stage.connect(), b""
        client.handshake(chance.choice(MECHANISMS).name, chance.choice((1, 1, 1, 0)))
        for _ in range(3):
            sent += 1
            last = _say(client, heard.token(chance, last)) or last
            assert client.principal == "User:ANONYMOUS", seed
            if client.transport.is_closed:
                break
        challenged += bool(last)
        client.channel.close()
        stage.layer.observer.completed.clear()
    return challenged


def _say(client: Client, token: bytes) -> bytes:
    if client.channel.connection.authenticator.expects_token:
        return client.send_frame(token)
    answer = client.authenticate(token)
    return b"" if answer is None else bytes(answer.auth_bytes)


def test_nothing_that_was_heard_lets_anybody_in() -> None:
    assert steps(1, 3_000) > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_messages_let_nobody_in() -> None:
    for seed in range(20):
        assert steps(seed, 50_000) > 2_000
