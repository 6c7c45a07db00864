"""The file of rules: thresholds, muted findings, owners; and which findings are told again while a log is followed."""

import datetime
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from twisted_kafka_spark import thresholds
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.findings.rules import Rules, read
from twisted_kafka_spark.stream.memory import Memory
from twisted_kafka_spark.stream.tell import Teller, check_webhook

TODAY = datetime.date(2026, 11, 21)
START = datetime.datetime(2026, 11, 21, 8, tzinfo=datetime.UTC)


def finding(name: str = "slow-disk", first: str = "08:10", last: str = "08:20", **evidence: Any) -> Finding:
    return Finding(name, name, evidence or {"node": 2}, "", "Act.", f"2026-11-21T{first}Z", f"2026-11-21T{last}Z")


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return path


def test_rules_mute_and_name_owners(tmp_path: Path) -> None:
    rules = read(
        written(
            tmp_path,
            """
            [thresholds]
            rebalances_a_minute = 80
            [[mute]]
            name = "old-client"
            client_id = "legacy-*"
            until = 2026-12-31
            [[owner]]
            team = "payments"
            principal = "User:payments-*"
            """,
        )
    )
    old = [finding("old-client", client_id=name).as_values() for name in ("legacy-1", "app")]
    owned = finding(principal="User:payments-7", node=1).as_values()
    heard, muted = rules.applied([*old, owned], TODAY)
    assert ([each["evidence"].get("client_id") for each in heard], muted) == (["app", None], 1)
    assert [each["owner"] for each in heard] == [None, "payments"]
    assert rules.applied(old, datetime.date(2027, 1, 1))[1] == 0
    assert rules.thresholds == {"REBALANCES_A_MINUTE": 80}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mute]\nname = 'old-client'", "two brackets"),
        ("[[mute]]\nreason = 'x'", "names nothing"),
        ("[[mute]]\nname = 'nothing'", "no finding is called nothing"),
        ("[[mute]]\nclient = 'x'", "unknown key client"),
        ("[[mute]]\nname = 'old-client'\nuntil = '2027'", "must be a date"),
        ("[[owner]]\nprincipal = 'x'", "needs a text team"),
        ("[thresholds]\nminute_floor = 3", "unknown threshold minute_floor"),
        ("[thresholds]\nmad_factor = -1", "must be a number above 0"),
        ("[other]", "unknown table other"),
        ("[[", "rules.toml"),
    ],
)
def test_a_mistake_in_rules_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path, text))


def test_a_changed_threshold_is_as_before_afterwards() -> None:
    before = thresholds.REBALANCES_A_MINUTE
    with thresholds.changed({"REBALANCES_A_MINUTE": before + 1}):
        assert before + 1 == thresholds.REBALANCES_A_MINUTE
    assert before == thresholds.REBALANCES_A_MINUTE


def states(memory: Memory, minute: int, *found: Finding) -> list[str]:
    at = START + datetime.timedelta(minutes=minute)
    return [each["state"] for each in memory.news(found, START - datetime.timedelta(hours=3), at)]


def test_a_finding_is_told_when_it_is_found_and_when_it_is_over() -> None:
    memory = Memory()
    assert states(memory, 20, finding()) == ["open"]
    assert states(memory, 25, finding(last="08:25")) == []
    memory = Memory.of(json.loads(json.dumps(memory.stored())))
    assert states(memory, 40, finding(last="08:25")) == ["over"]
    assert states(memory, 60, finding(last="08:25")) == []
    assert states(memory, 120, finding(first="10:00", last="10:00")) == ["open"]
    assert states(memory, 200) == ["over"]


def test_a_lasting_condition_is_told_once() -> None:
    memory = Memory()
    old = Finding("old-client", "old", {"client_id": "legacy"}, "", "Upgrade.")
    assert states(memory, 1, old) == ["open"]
    for minute in range(31, 1200, 30):
        assert states(memory, minute, old) == []


def test_the_id_is_that_of_the_subject() -> None:
    assert finding(node=2, minutes=3).id == finding(first="11:00", node=2, minutes=9).id != finding(node=3).id


def test_findings_are_json_lines_and_go_to_a_webhook(capsys: pytest.CaptureFixture[str]) -> None:
    got: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204 if len(got) > 1 else 503)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        Teller(as_json=True, webhook=f"http://127.0.0.1:{server.server_port}/")([finding().as_values()])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert json.loads(capsys.readouterr().out)["id"] == finding().id == got[1]["id"]


def test_a_webhook_that_cannot_be_reached_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    Teller(webhook="http://127.0.0.1:1/")([finding().as_values()])
    assert "failed to send slow-disk to the webhook" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--webhook must be a URL"):
        check_webhook("file:///etc/passwd")


def test_rules_that_are_not_there_change_nothing() -> None:
    assert Rules().applied([finding().as_values()], TODAY)[1] == 0


def test_a_reader_that_has_gone_closes_the_output_and_nothing_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Gone:
        def __init__(self, number: int) -> None:
            self._number = number

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

        def fileno(self) -> int:
            return self._number

    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr("sys.stdout", Gone(file.fileno()))
        teller = Teller(as_json=True)
        assert not teller.is_closed
        teller([finding().as_values()])
        assert teller.is_closed
