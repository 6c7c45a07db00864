"""Wrong command lines: one line, with the most similar word or the help to read, and status 2."""

import pytest

from twisted_kafka.tools.main import EXIT_USAGE, main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("topic list", "twisted-kafka: argument COMMAND: invalid choice: 'topic': did you mean 'topics'?"),
        ("topics lst", "twisted-kafka topics: argument ACTION: invalid choice: 'lst': did you mean 'list'?"),
        ("consume t --format jsn", "twisted-kafka consume: argument -f/--format: invalid choice: 'jsn': did you mean 'json'?"),
        (
            "topics create t --partitons 3",
            "twisted-kafka topics create: there is no option --partitons: did you mean --partitions?",
        ),
        (
            "topics create t --partitons=3",
            "twisted-kafka topics create: there is no option --partitons: did you mean --partitions?",
        ),
        ("produce t a b --xyz", "twisted-kafka produce: there is no option --xyz; see twisted-kafka produce --help"),
        (
            "certificates a b",
            "twisted-kafka certificates: there is an argument too many: 'b'; see twisted-kafka certificates --help",
        ),
        (
            "topics reassign t --brokers 1 -r 0",
            "twisted-kafka topics reassign: argument -r/--replication-factor: 0 is out of range: expected 1 to 2147483647; "
            "see twisted-kafka topics reassign --help",
        ),
        (
            "consume t -n -1",
            "twisted-kafka consume: argument -n/--max-records: -1 is out of range: expected 0 to 9223372036854775807; "
            "see twisted-kafka consume --help",
        ),
        (
            "topics create t -r 40000",
            "twisted-kafka topics create: argument -r/--replication-factor: 40000 is out of range: expected -1 to 32767; "
            "see twisted-kafka topics create --help",
        ),
        (
            "transactions list --older-than 1e400",
            "twisted-kafka transactions list: argument --older-than: 1e400 is out of range: expected 0 to 1,000,000,000; "
            "see twisted-kafka transactions list --help",
        ),
        (
            "transactions find-hanging --older-than nan",
            "twisted-kafka transactions find-hanging: argument --older-than: nan is out of range: expected 0 to 1,000,000,000; "
            "see twisted-kafka transactions find-hanging --help",
        ),
        ("", "twisted-kafka: the following arguments are required: COMMAND; see twisted-kafka --help"),
        ("consume", "twisted-kafka consume: the following arguments are required: TOPIC; see twisted-kafka consume --help"),
        (
            "-b x:1 topics list",
            "twisted-kafka: options follow the command, as in twisted-kafka topics list -b HOST:PORT; see twisted-kafka --help",
        ),
    ],
)
def test_a_wrong_command_line_is_explained_in_one_line(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert (ended.value.code, capsys.readouterr().err) == (EXIT_USAGE, f"{said}\n")
