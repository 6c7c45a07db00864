import sys
from pathlib import Path

import pytest
from twisted.python.reflect import namedAny

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.tap import Options


def config_of(*arguments: str) -> KafkaConfig:
    options = Options()
    options.parseOptions(list(arguments))
    assert options.config is not None
    return options.config


def test_without_options_everything_lies_in_kafka_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_of()
    assert config.log_dirs == (str(tmp_path / "kafka-data" / "log"),)
    assert config["access.log.dir"] == str(tmp_path / "kafka-data" / "access")
    assert [end_point.text for end_point in config.listeners] == ["PLAINTEXT://:9092"]


def test_options_go_before_overrides_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nnum.partitions=1\nlog.dirs=/file\nlisteners=PLAINTEXT://a:1\nnum.io.threads=9\n")
    config = config_of(
        *("--config", str(file), "--override", "num.partitions=2", "-o", "listeners=PLAINTEXT://b:2", "-o", "log.dirs=/override"),
        *("--listeners", "PLAINTEXT://c:3", "--broker-id", "7", "--data-dir", str(tmp_path)),
    )
    assert (config["num.partitions"], config["num.io.threads"], config.broker_id) == (2, 9, 7)
    assert [end_point.text for end_point in config.listeners] == ["PLAINTEXT://c:3"]
    assert config.log_dirs == (str(tmp_path / "log"),)


def test_variables_go_before_the_file_if_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nnum.partitions=1\nnum.io.threads=9\nlog.dirs=/file\n")
    variables = {
        "KAFKA_NUM_PARTITIONS": "2",
        "KAFKA_BROKER_ID": "5",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_RACK": "",
        "LOG_DIRS": "/no",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = config_of("--environment", "--config", str(file), "--override", "broker.id=7")
    assert (config["num.partitions"], config["num.io.threads"], config.broker_id, config.log_dirs) == (2, 9, 7, ("/file",))
    assert not config.warnings
    assert config_of("--config", str(file))["num.partitions"] == 1
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "none")
    with pytest.raises(SystemExit):
        config_of("--environment")


def test_a_file_may_say_where_the_log_lies(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/a,/b\n")
    assert config_of("--config", str(file)).log_dirs == ("/a", "/b")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--xyz"], "option --xyz not recognized: --help lists the options"),
        (["--overide", "a=b"], "option --overide not recognized: did you mean --override?"),
        (["extra"], "Unexpected argument: extra"),
        (["--override", "x"], "Invalid setting 'x': must be KEY=VALUE"),
        (["--override", "num.io.threads=0"], "Invalid value '0' for num.io.threads: must be at least 1"),
        (["--broker-id", "one"], "Invalid value 'one' for broker.id: must be a whole number of 32 bits"),
        (["--listeners", ""], "option --listeners must not be empty"),
        (["--data-dir", ""], "option --data-dir must not be empty"),
        (["--config", ""], "option --config must not be empty"),
        (["--broker-id", ""], "option --broker-id must not be empty"),
        (["--config", sys.executable], f"Cannot read the configuration {sys.executable}: it is not a text file"),
        (["--config", "/no/such/file"], "Cannot read the configuration /no/such/file: No such file or directory"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_1(arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("builtins.print", lambda line, file: shown.append(line))
    with pytest.raises(SystemExit) as ended:
        config_of(*arguments)
    assert ended.value.code == 1
    assert shown == [f"twistd kafka: {says}"]


def test_help_explains_and_gives_examples() -> None:
    text = str(Options())
    for word in ("--config", "--override", "KEY=VALUE", "--listeners", "--data-dir", "--broker-id", "kafka-data", "Examples"):
        assert word in text


def test_a_log_that_cannot_be_written_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options, twistd = Options(), Options()
    twistd["logfile"] = str(tmp_path / "none" / "x.log")
    options.parent = twistd
    options.parseOptions([])
    with pytest.raises(SystemExit):
        namedAny(twistd["logger"])()  # type: ignore[no-untyped-call]
    assert capfd.readouterr().err == f"twistd kafka: Cannot write the log {tmp_path}/none/x.log: No such file or directory\n"
