"""A cluster under faults and mixed load keeps Kafka's promises, and runs can be continued."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import share_of
from tests.world.hours.command import known, run_all, summary
from tests.world.hours.runs import faults_of, run

WAIT_S = 600


@pytest.mark.medium
def test_two_seconds_of_a_cluster() -> None:
    outcome = run(1, 2)
    assert outcome.error is None
    assert outcome.faults


@pytest.mark.slow
def test_a_cluster_keeps_its_promises() -> None:
    for seed in range(100, 100 + share_of(4)):
        outcome = run(seed, 60)
        assert outcome.error is None, f"seed {seed}: {outcome.error}"


@pytest.mark.slow
def test_a_leader_that_loses_power_and_is_back_before_it_is_missed_loses_nothing() -> None:
    """The leader of seed 3 is the controller, too. Its next one finds it alive, with a truncated log."""
    outcome = run(3, 30)
    assert outcome.error is None, outcome.error
    assert "take the power from kafka-2" in outcome.faults[-1].text


@pytest.mark.slow
def test_the_command_runs_seeds_in_processes_of_their_own(tmp_path: Path) -> None:
    results = run_all(tmp_path / "results.jsonl", 0.02, 1, 2)
    assert [each["seed"] for each in results] == list(range(len(results)))
    assert results
    assert not any("error" in each for each in results)
    assert results == known(tmp_path / "results.jsonl")


@pytest.mark.slow
def test_a_cluster_runs_the_same_way_with_any_hash_seed() -> None:
    for seed in range(share_of(10)):
        command = [sys.executable, "-m", "tests.world.hours", "--seed", str(seed), "--virtual-seconds", "10"]
        seen = set()
        for hash_seed in "12":
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            seen.add(subprocess.run(command, env=environment, capture_output=True, check=True, timeout=WAIT_S).stdout)
        assert len(seen) == 1, f"seed {seed}"


def test_seeds_have_different_faults() -> None:
    assert len({str(faults_of(seed)) for seed in range(20)}) > 15
    assert faults_of(3) == faults_of(3)


def test_results_are_kept_and_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "world" / "results.jsonl"
    assert run_all(path, 0, 1, 60) == known(path) == []
    results: list[dict[str, Any]] = [
        {"seed": 0, "virtual_s": 1800, "cpu_s": 10},
        {"seed": 7, "virtual_s": 1800, "cpu_s": 20, "error": "lost: x"},
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in results))
    assert run_all(path, 0, 1, 60) == results
    assert summary(results) == "2 seeds, 1.00 simulated hours, 30 s of processors, 1 failed\n\nseed 7:\nlost: x"
