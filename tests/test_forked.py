"""Workers that are forked after the collection (``tests/support/forked.py``), in a pytest of their own."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

pytestmark = pytest.mark.long

_CONFTEST = """
import os
import pytest
from tests.support.forked import Forks

def pytest_configure(config):
    config.pluginmanager.register(Forks(config, 2, lambda nodeid: nodeid.partition("::")[0]))

@pytest.fixture(scope="session")
def session():
    yield os.getpid()
    with open("ended", "a") as file:
        print(os.getpid(), file=file)

def pytest_collection_modifyitems(items):
    with open("collected", "a") as file:
        print(len(items), file=file)
"""
_FIRST = """
import os, sys, warnings
import pytest

def test_passes(session, tmp_path):
    assert session == os.getpid()
    print("not shown")

def test_fails(session):
    print("written by it")
    assert [session] == ["told why"]

def test_ends_its_process():
    os._exit(3)

def test_goes_on():
    warnings.warn("beware")

@pytest.mark.skip(reason="no reason")
def test_is_skipped(): ...

@pytest.mark.xfail
def test_is_expected_to_fail():
    assert False
"""
_SECOND = """
import pytest

@pytest.fixture
def broken():
    yield
    raise OSError("at its end")

def test_teardown_fails(session, broken): ...
"""
_WAITS = """
import os, pathlib, signal, time

def test_waits(session):
    pathlib.Path("waits").touch()
    time.sleep(60)
"""
_INTERRUPTS = """
import os, pathlib, signal, time

def test_interrupts(session):
    while not pathlib.Path("waits").exists():
        time.sleep(0.01)
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
"""


@pytest.fixture
def tests(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(test_first=_FIRST, test_second=_SECOND)
    pytester.syspathinsert(Path(__file__).parents[1])
    return pytester


def test_each_result_is_reported_as_by_one_process(tests: pytest.Pytester) -> None:
    result = tests.runpytest_subprocess("-p", "no:twisted_kafka", "--junitxml", "run.xml")
    result.assert_outcomes(passed=3, failed=2, errors=1, skipped=1, xfailed=1, warnings=1)
    told = ["*told why*", "*written by it*", "*the process of this test ended with 3*", "*beware*"]
    told += ["FAILED test_first.py::test_ends_its_process - *", "ERROR test_second.py::test_teardown_fails - OSError: *"]
    for line in [
        *told,
        "FAILED test_first.py::test_ends_its_process - *",
        "ERROR test_second.py::test_teardown_fails - OSError: *",
    ]:
        result.stdout.fnmatch_lines([line])
    assert "not shown" not in result.stdout.str()
    assert (tests.path / "run.xml").read_text().count("<testcase ") == 7
    assert (tests.path / "collected").read_text() == "7\n"
    assert len((tests.path / "ended").read_text().splitlines()) == 1, "that of the other worker ended with its process"
    again = tests.runpytest_subprocess("-p", "no:twisted_kafka", "--last-failed", "-x")
    assert again.ret == pytest.ExitCode.TESTS_FAILED
    assert "stopping after 1 failures" in again.stdout.str()


def test_an_interrupted_run_ends_its_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_CONFTEST)
    # A worker takes its next module before it runs the last test of another.
    pytester.makepyfile(test_1=_WAITS, test_2="def test_passes(): ...", test_3=_INTERRUPTS)
    pytester.syspathinsert(Path(__file__).parents[1])
    result = pytester.runpytest_subprocess("-p", "no:twisted_kafka", "-p", "no:twisted", timeout=50)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert len((pytester.path / "ended").read_text().splitlines()) == 2
