"""Tests with the marker: seeds, a failing one shrunk and repeated, and wrong uses in one line."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_twisted_kafka  # noqa: F401 kept when pytester forgets what its tests import
from tests.support.budget import patient
from twisted_kafka.world import World, plugin, seeds  # noqa: F401

pytestmark = pytest.mark.medium

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True, scope="module")
def _imports() -> None:
    """Import all that a world needs: a pytest in this process would import it a second time for the next test."""
    with World():
        pass


_OPTIONS = (
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    "-p",
    "no:asyncio",
    "-p",
    "no:twisted_kafka",
    "-p",
    "pytest_twisted_kafka",
)


def run(pytester: pytest.Pytester, tests: str, *more: str) -> pytest.RunResult:
    pytester.makepyfile(f"import pytest\n\n{tests}")
    return pytester.runpytest_inprocess("--strict-markers", *_OPTIONS, *more)


def test_a_test_runs_in_the_world_of_each_seed(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
seen = []

@pytest.mark.kafka_world(seeds=3, num_partitions=2)
@pytest.mark.parametrize("number", [7])
async def test_it(world, number, tmp_path):
    await world.run(1)
    seen.append((world.seed, number))

def test_it_was_run():
    assert seen == [(0, 7), (1, 7), (2, 7)]
""",
    ).assert_outcomes(passed=2)


_KILLED = """
@pytest.mark.kafka_world(seeds=5)
async def test_no_broker_is_killed(world):
    world.faults(pauses=4, kills=1, clock_errors=2, longest_s=3)
    await world.run(10)
    assert "is killed" not in world.trace.text()
"""


def test_a_failing_seed_is_shrunk_and_can_be_repeated(pytester: pytest.Pytester) -> None:
    result = run(pytester, _KILLED, "--kafka-trace=trace.txt")
    text = result.stdout.str()
    found = re.search(r"--kafka-seed=0 --kafka-faults=(\d+)\n", text)
    assert found is not None, text
    assert len(re.findall(r"^E +[\d.]+  \d+: ", text, re.MULTILINE)) == 1
    assert "SeedFailedError" in text
    trace = (pytester.path / "trace.txt").read_text()
    again = run(pytester, _KILLED, "--kafka-seed=0", f"--kafka-faults={found.group(1)}", "--kafka-trace=again.txt")
    again.assert_outcomes(failed=1)
    assert (pytester.path / "again.txt").read_text() == trace
    run(pytester, _KILLED, "--kafka-seed=0", "--kafka-faults=none").assert_outcomes(passed=1)


@pytest.mark.slow
def test_the_example_of_the_document_finds_its_bug_and_only_that(pytester: pytest.Pytester) -> None:
    page = (Path(__file__).parents[2] / "docs" / "world.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    commit, work = "        await consumer.commit()\n", "        booked.add(int(record.value))\n"
    right = found.group(1).replace(commit, "").replace(work, work + commit)
    result = run(pytester, found.group(1))
    result.assert_outcomes(failed=1)
    for line in re.findall(r"```\n(test_each.*?)```", page, re.DOTALL)[0].splitlines():
        # Which seed finds it changes with the broker's code.
        assert re.search(re.sub(r"\d+", r"\\d+", re.escape(line.strip())), result.stdout.str()), line
    run(pytester, right.replace("seeds=20", "seeds=3")).assert_outcomes(passed=1)


WRONG_USES = (
    ("kafka_world(3)", "async def test_{}(world)", "expected names"),
    ("kafka_world(seeds=0)", "async def test_{}(world)", "expected a number from 1 on"),
    ("kafka_world(brokers=0)", "async def test_{}(world)", "expected 1 to 20"),
    ("kafka_world(num_partitions='x')", "async def test_{}(world)", "num.partitions"),
    ("kafka_world()", "def test_{}(world)", "is for `async def"),
    ("kafka_world()", "async def test_{}()", "is for `async def"),
    ("filterwarnings('ignore')", "def test_{}(world)", "needs @pytest.mark.kafka_world"),
)


def test_a_wrong_use_is_one_line(pytester: pytest.Pytester) -> None:
    tests = [f"@pytest.mark.{mark}\n{head.format(number)}:\n    pass\n" for number, (mark, head, _) in enumerate(WRONG_USES)]
    result = run(pytester, "\n".join(tests))
    result.assert_outcomes(failed=len(WRONG_USES))
    lines = [(f"*_ test_{number} _*", f"*{told}*") for number, (_, _, told) in enumerate(WRONG_USES)]
    result.stdout.fnmatch_lines([*itertools.chain.from_iterable(lines)])
    usage = run(pytester, _KILLED, "--kafka-faults=1")
    assert "--kafka-faults needs --kafka-seed" in usage.stdout.str() + usage.stderr.str()
    usage = run(pytester, _KILLED, "--kafka-at=1")
    assert "--kafka-at needs --kafka-seed" in usage.stdout.str() + usage.stderr.str()


_WITHOUT_GREENLET = """
import sys
sys.modules["greenlet"] = None
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_without_greenlet_only_worlds_fail_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"import pytest\n\n{_KILLED}\n\ndef test_other():\n    pass\n")
    done = run_elsewhere(pytester, "-c", _WITHOUT_GREENLET, *_OPTIONS)
    assert "1 failed, 1 passed" in done.stdout
    assert "a world needs greenlet: pip install " in done.stdout
    assert "Traceback" not in done.stdout


def run_elsewhere(pytester: pytest.Pytester, *arguments: str, commands: str = "") -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, *arguments],
        input=commands,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'pytest_plugin'}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=pytester.path,
        capture_output=True,
        text=True,
        timeout=patient(100),
        check=False,
    )


@pytest.mark.slow
def test_a_prompt_opens_at_a_moment(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"import pytest\n\n{_KILLED}")
    options = ("--kafka-seed=0", "--kafka-faults=none", "--kafka-at=3.5")
    commands = "world.now_s\nat(1)\nworld.brokers[0].kill()\ngo_on()\nexit()\n"
    done = run_elsewhere(pytester, "-m", "pytest", *_OPTIONS, *options, commands=commands)
    assert re.search(r"at 3.500000 s\nkafka-1 +runs\n.*\n>>> 3.5\n>>> The world of seed 0 at 1.000000 s\n", done.stdout), done
    assert "AssertionError" in done.stdout
    assert "1 passed" in done.stdout
