"""What all pages of a console share."""

from typing import Any

import pytest

from tests.console.web.served import FakeSession, Served
from tests.support.fake import Fake
from twisted_kafka.console.web import context
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal


class Quiet(Fake):
    """A broker that has nothing to say."""

    def diagnoses(self, _: object) -> tuple[()]:
        return ()

    def certificates(self, _: object) -> tuple[()]:
        return ()


ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")


def test_findings_are_looked_for_again_after_some_seconds_and_for_each_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served()
    served.context.live = Quiet()
    viewers: list[KafkaPrincipal] = []

    def look(session: Any, *_: Any) -> tuple[()]:
        viewers.append(session.principal)
        return ()

    monkeypatch.setattr(context, "findings", look)
    for viewer in (ALICE, BOB, ALICE):
        served.context.findings(viewer, FakeSession(viewer, "127.0.0.1"))
    assert viewers == [ALICE, BOB]
    served.clock.advance_ms(context.FINDINGS_S * 1_000)
    served.context.findings(ALICE, FakeSession(ALICE, "127.0.0.1"))
    assert viewers == [ALICE, BOB, ALICE]
