"""Each fault of the list can be applied to the package as it is now."""

from pathlib import Path

import pytest

from tests.world.mutants.command import known, table
from tests.world.mutants.faults import PACKAGE, ROOT, Mutant, all_mutants, make_copy

PARTS = ("log", "replication", "controller", "coordinators")


def applied(mutant: Mutant) -> str:
    return mutant.applied((ROOT / PACKAGE / mutant.module).read_text())


def test_each_of_ten_faults_in_four_parts_can_be_applied() -> None:
    assert all(applied(each) for each in all_mutants())
    assert [sum(each.part == part for each in all_mutants()) for part in PARTS] == [10] * len(PARTS)


@pytest.mark.slow
def test_modules_with_a_fault_can_be_imported() -> None:
    for each in all_mutants():
        compile(applied(each), each.title, "exec")


def test_a_text_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"log\.x: the text occurs 0 times in log/files\.py"):
        Mutant("log", "x", "log/files.py", "not there", "").applied("text")


def test_results_are_read_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "results"
    assert known(path) == {}
    path.write_text('{"mutant": "log.a", "seeds": 2, "virtual_s": 120, "error": "lost\\nmore"}\n{"mutant": "log.b", "seeds": 3}\n')
    assert table(known(path)).splitlines()[2:] == [
        "| log.a | 2 min (2 seeds) | lost more |",
        "| log.b | not in 0 min (3 seeds) |  |",
    ]


@pytest.mark.slow
def test_a_copy_has_the_fault(tmp_path: Path) -> None:
    mutant = next(all_mutants())
    make_copy(tmp_path, mutant)
    assert mutant.now in (tmp_path / PACKAGE / mutant.module).read_text()
    assert (tmp_path / "tests" / "world").is_dir()
