from pathlib import Path

import pytest

from tests.support.summary import main

RUN = """<testsuites><testsuite name="pytest" time="90.0">
<testcase classname="tests.test_a" name="test_passes" time="1.5"/>
<testcase classname="tests.test_a" name="test_is_left_out" time="0.1"><skipped message="no Java"/></testcase>{more}
</testsuite></testsuites>"""
FAILURE = '<testcase classname="tests.test_a" name="test_fails" time="2"><failure message="no"/></testcase>'


@pytest.mark.parametrize(
    ("more", "status", "line"),
    [
        ("", 0, "run: 1 passed, 0 failed, 1 skipped in 2 minutes"),
        (FAILURE, 1, "run: 1 passed, 1 failed, 1 skipped in 2 minutes"),
    ],
)
def test_a_failed_test_fails_the_whole(
    more: str, status: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run.xml"
    run.write_text(RUN.format(more=more))
    assert main([str(run)]) == status
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == line
    assert ("FAILED tests.test_a::test_fails" in printed) is bool(more)


def test_a_run_that_did_not_end_fails_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.xml"
    run.write_text(RUN.format(more=""))
    assert main([str(run), str(tmp_path / "other.xml")]) == 1
    assert "other.xml cannot be read, so its run did not end" in capsys.readouterr().out
