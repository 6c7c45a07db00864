"""``twisted-kafka set-password`` on brokers that do not run."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from twisted_kafka.broker.registration.metadata_store import METADATA_FILE
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.directories.meta_properties import MetaProperties, write_meta_properties
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.znodes import ConfigNode
from twisted_kafka.security.scram.credentials import make_credential, parse_credential
from twisted_kafka.security.scram.formulas import SCRAM_SHA_256, SCRAM_SHA_512, ScramMechanism, salted_password
from twisted_kafka.tools.main import EXIT_USAGE, main

Command = Callable[..., int]


@pytest.fixture
def set_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command for a broker in ``tmp_path``, with a password in its standard input."""

    def run(user: str, *options: str, password: str) -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        return main(["set-password", user, "--data-dir", str(tmp_path), *options])

    return run


def stored(directory: Path, user: str) -> dict[str, str]:
    store = SqliteStore(directory / METADATA_FILE, threaded=False)
    try:
        found = store.get(f"/config/users/{user}")
    finally:
        store.close()
    return {} if found is None else ConfigNode.decode(found[0]).config


def is_password(mechanism: ScramMechanism, credential_text: str, password: str) -> bool:
    found = parse_credential(credential_text)
    salted = salted_password(mechanism, password.encode(), found.salt, found.iterations)
    return found == make_credential(mechanism, found.salt, salted, found.iterations)


def test_the_first_user_of_a_broker(set_password: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set_password("admin", password="päss=wörd,") == 0
    assert capsys.readouterr().out == "admin can log in with SCRAM-SHA-512\n"
    config = stored(tmp_path / "log", "admin")
    assert list(config) == ["SCRAM-SHA-512"]
    assert is_password(SCRAM_SHA_512, config["SCRAM-SHA-512"], "päss=wörd,")
    assert "iterations=4096" in config["SCRAM-SHA-512"]


@pytest.mark.medium
def test_another_mechanism_and_a_new_password(set_password: Command, tmp_path: Path) -> None:
    assert set_password("admin", password="first") == 0
    assert set_password("admin", "-m", "SCRAM-SHA-256", "--iterations", "8192", password="second") == 0
    assert set_password("admin", password="third") == 0
    config = stored(tmp_path / "log", "admin")
    assert is_password(SCRAM_SHA_512, config["SCRAM-SHA-512"], "third")
    assert is_password(SCRAM_SHA_256, config["SCRAM-SHA-256"], "second")
    assert "iterations=8192" in config["SCRAM-SHA-256"]


def test_the_store_is_where_the_settings_say(set_password: Command, tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(f"metadata.log.dir={tmp_path / 'metadata'}\n")
    assert set_password("admin", "--config", str(settings), password="first") == 0
    assert stored(tmp_path / "metadata", "admin")


def test_a_broker_that_runs_is_left_alone(set_password: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = LogDirectory(tmp_path / "log")
    running.acquire()
    try:
        assert set_password("admin", password="first") == EXIT_USAGE
    finally:
        running.release()
    whose = "another broker of this process holds the lock on .lock in it"
    advice = "use twisted-kafka users set-password while it runs"
    assert capsys.readouterr().err == f"twisted-kafka: The log directory {tmp_path / 'log'} is in use: {whose}, or {advice}\n"
    assert not (tmp_path / "log" / METADATA_FILE).exists()


def test_the_settings_of_another_broker_are_refused_as_a_start_would(
    set_password: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").mkdir()
    write_meta_properties(tmp_path / "log", MetaProperties("cluster", 1001))
    settings = tmp_path / "server.properties"
    settings.write_text("broker.id=1\n")
    assert set_password("admin", "--config", str(settings), password="first") == EXIT_USAGE
    told = capsys.readouterr()
    assert "must be 1001, as the log directories have it. Remove broker.id from the settings" in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)
    settings.write_text("")
    assert set_password("admin", "--config", str(settings), password="first") == 0


@pytest.mark.parametrize(
    ("user", "options", "password", "said"),
    [
        ("admin", (), "", "the password is empty: type one at the prompt, or write it to the standard input"),
        ("", (), "first", "Username must not be empty"),
        ("admin", ("--iterations", "4095"), "first", "--iterations must be from 4096 to 16384, not 4095"),
        ("admin", ("--config", "nowhere.properties"), "first", "nowhere.properties"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    user: str, options: tuple[str, ...], password: str, said: str, set_password: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set_password(user, *options, password=password) == EXIT_USAGE
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
