"""Mutation tests: change the code in one place at a time, and check that a test of its package fails (`make mutants`).

    python -m benchmarks.mutants [--packages log network] [--sample 20] [--seed 1] [--all] [--modules cleaner partition]

mutmut creates the mutants and runs the tests that reach the changed function. A mutant that passes all tests has survived: a test
is missing, or the mutant is equivalent. `tests/mutants.toml` lists the accepted survivors by function and mutation, with the
reasons; a test finds those of code that is gone.

- There are 9,000 mutants. A run takes a sample of 20 per package, chosen by the seed. Tests run in order of duration, so most
  mutants die in the first second.
- Only the package's own tests (and those of its neighbours) count, without those marked slow and long.
- The mutations are mutmut's of operators, comparisons, numbers, booleans, loops and conditions. Excluded are those that mypy
  rejects (a value becomes None, an argument is removed) and those of texts. Two are added: a call that is a statement is removed,
  and `if x` becomes `if not x`. Logging calls are left alone. mutmut does not mutate decorated functions and module-level code.
- Tests run several times in one process: one that changes a value of its module fails the second time.

At least 90 % have to be killed. It is not part of `.ci/run`: a sample of 160 is too small to fail a change.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "mutants"
ACCEPTED = ROOT / "tests" / "mutants.toml"
COORDINATORS = ("coordinator", "group_coordinator", "transaction_coordinator")
CONNECTIONS = ("network", "client", "tls")
TESTS = {
    "log": ("log",),
    "replication": ("replication",),
    **dict.fromkeys(COORDINATORS, COORDINATORS),  # the runtime is tested by its coordinators
    **dict.fromkeys(CONNECTIONS, CONNECTIONS),
}
"""The folders of the tests of each package."""
PACKAGES = tuple(TESTS)
SAMPLE = 20
LEAST_KILLED = 0.9
TIMEOUT_S = 3600
SETTINGS = """
[tool.mutmut]
source_paths = ["twisted_kafka"]
only_mutate = ["twisted_kafka/{package}/*"]
# Log messages are not tested.
do_not_mutate_patterns = ["[.](debug|info|warn|error|critical|failure)[(]"]
also_copy = ["benchmarks", "docs", "etc", "spark", "pytest_plugin"]
pytest_add_cli_args_test_selection = {tests}
# mutmut runs pytest again and again in a process that holds the locks of earlier runs' log directories: names must not recur.
pytest_add_cli_args = [
    "-m", "not slow and not long", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-o", "tmp_path_retention_policy=all",
]
track_dependencies = false
use_git_change_detection = false
"""
KILLED = ("killed", "timeout", "segfault", "suspicious")
TOKEN = re.compile(r"\w+(?:\.\w+)*|[-+*/<>=!%&|^]+|\S")
TOKENS_BEFORE = 2
TOKENS_AFTER = 1


@dataclass(frozen=True)
class Survivor:
    """A mutant that passed all tests: its function, the original line, and the changed line."""

    function: str
    was: str
    now: str

    @property
    def key(self) -> tuple[str, str]:
        """The function and the mutation, which stay the same while other code changes."""
        return self.function, mutation(self.was, self.now)


def mutation(was: str, now: str) -> str:
    """Return the tokens that differ, with some before and after them: ``if size < 0 => if size <= 0``, ``without log.flush``."""
    call = re.match(r"[\w.]+(?=\()", was)
    if now == "pass" and call:
        return f"without {call[0]}"
    old, new = list(TOKEN.finditer(was)), list(TOKEN.finditer(now))
    same = [one[0] == other[0] for one, other in zip(old, new, strict=False)]
    before = same.index(False) if False in same else len(same)
    same_after = [one[0] == other[0] for one, other in zip(reversed(old[before:]), reversed(new[before:]), strict=False)]
    after = same_after.index(False) if False in same_after else len(same_after)
    first, after = max(before - TOKENS_BEFORE, 0), max(after - TOKENS_AFTER, 0)
    parts = ((text, tokens[first : len(tokens) - after]) for text, tokens in ((was, old), (now, new)))
    return " => ".join(text[tokens[0].start() : tokens[-1].end()] for text, tokens in parts)


# The process that runs the mutants of one package


def remove_call(node: Any) -> Iterable[Any]:
    """Remove a call statement; mutmut has no such mutation."""
    import libcst

    if isinstance(node.value, libcst.Call):
        yield libcst.Pass()


def negate(node: Any) -> Iterable[Any]:
    """Negate a condition that is a name, an attribute or a call; mutmut only mutates conditions with operators."""
    import libcst

    if isinstance(node.test, libcst.Name | libcst.Attribute | libcst.Call):
        yield node.with_changes(test=libcst.UnaryOperation(operator=libcst.Not(), expression=node.test))


def choose_operators() -> None:
    """Select the mutations that a type checker does not detect, and that do not change texts."""
    import libcst
    from mutmut.mutation import mutators

    excluded = (
        mutators.operator_string,
        mutators.operator_dict_arguments,
        mutators.operator_assignment,
        mutators.operator_arg_removal,
        mutators.operator_lambda,
    )
    chosen = [(kind, operator) for kind, operator in mutators.mutation_operators if operator not in excluded]
    assert len(chosen) < len(mutators.mutation_operators)
    mutators.mutation_operators[:] = [*chosen, (libcst.Expr, remove_call), (libcst.If, negate)]  # type: ignore[index]


def ignore_callers() -> None:
    """Do not note who calls a mutated function, which is used for nothing here and fails where a generator outlives its caller."""
    from mutmut.core import MutmutCallStack

    MutmutCallStack.set = lambda value: None  # type: ignore[assignment,method-assign]
    MutmutCallStack.reset = lambda token: None  # type: ignore[assignment,method-assign]


def run_quick_tests_first() -> None:
    """Sort the tests of a mutant by duration; mutmut runs them in any order, and the slowest takes longer than all quick ones."""
    from mutmut.runners.harness import PytestRunner
    from mutmut.state import state

    run_tests = PytestRunner.run_tests

    def run_sorted(self: Any, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        durations = state().duration_by_test
        return run_tests(self, mutant_name=mutant_name, tests=sorted(tests, key=lambda test: durations.get(test, 0)))

    PytestRunner.run_tests = run_sorted  # type: ignore[method-assign]


def run(package: str, sample: int | None, seed: int, modules: Sequence[str]) -> None:
    """Run the mutants of the modules, or of all, in the current directory and write their results to `results.json`."""
    import mutmut.__main__ as program
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code

    choose_operators()
    ignore_callers()
    run_quick_tests_first()
    collect = program.collect_source_file_mutation_data
    chosen: list[tuple[Any, str, Any]] = []

    def collect_sample(*, mutant_names: Any) -> tuple[list[tuple[Any, str, Any]], Any]:
        mutants, data = collect(mutant_names=mutant_names)
        if modules:
            mutants = [each for each in mutants if set(modules) & set(each[1].split(".")[:-1])]
        mutants.sort(key=lambda each: each[1])
        chosen.extend(mutants if sample is None else random.Random(seed).sample(mutants, min(sample, len(mutants))))
        Path("count.json").write_text(json.dumps(len(mutants)))
        return chosen[:], data

    program.collect_source_file_mutation_data = collect_sample
    program._run((), 1)
    results = []
    for data, name, _ in chosen:
        status = status_by_exit_code[data.exit_code_by_key[name]]
        diff = get_diff_for_mutant(name, path=data.path) if status not in KILLED else ""
        results.append((name, status, diff))
    Path("results.json").write_text(json.dumps(results))


# The main process


def prepare(package: str) -> Path:
    """Create a directory with the project and mutmut's settings for one package."""
    directory = WORK / package
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name in ("twisted_kafka", "tests", "benchmarks", "docs", "etc", "spark", "pytest_plugin"):
        (directory / name).symlink_to(ROOT / name)
    settings = (ROOT / "pyproject.toml").read_text() + SETTINGS.format(
        package=package, tests=[f"tests/{folder}" for folder in TESTS[package]]
    )
    (directory / "pyproject.toml").write_text(settings)
    return directory


def survivor(name: str, diff: str) -> Survivor:
    module, _, mangled = name.rpartition(".")
    function = mangled.partition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    lines = [line.partition("  # ")[0] for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    was, now = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    return Survivor(f"{module.removeprefix('twisted_kafka.')}.{function}", was, now)


def accepted() -> set[tuple[str, str]]:
    """Return the functions and mutations of the accepted survivors."""
    return {(function, each) for function, mutations in tomllib.loads(ACCEPTED.read_text()).items() for each in mutations}


def report(package: str, directory: Path, known: set[tuple[str, str]]) -> tuple[int, int]:
    """Print the results of a package; return the number of killed mutants, and of those that could have been killed."""
    count = json.loads((directory / "count.json").read_text())
    results = json.loads((directory / "results.json").read_text())
    survived = [(survivor(name, diff), status) for name, status, diff in results if status not in KILLED]
    missed = [(each, status) for each, status in survived if each.key not in known]
    killed, possible = len(results) - len(survived), len(results) - len(survived) + len(missed)
    print(
        f"{package}: {killed} of {possible} killed ({killed / max(possible, 1):.0%}), "
        f"{len(missed)} survived, {len(survived) - len(missed)} accepted; {len(results)} of {count} mutants were run"
    )
    for each, status in missed:
        print(f"  {each.function}" + ("" if status == "survived" else f" ({status})"))
        print(f"    - {each.was}\n    + {each.now}\n    {json.dumps(each.key[1])}")
    return killed, possible


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation tests of packages")
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=PACKAGES)
    parser.add_argument("--sample", type=int, default=SAMPLE, help=f"number of mutants per package (default {SAMPLE})")
    parser.add_argument("--all", action="store_true", help="run all mutants, which takes hours")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default 1)")
    parser.add_argument("--modules", nargs="+", default=(), help="only mutants of these modules or folders of the packages")
    parser.add_argument("--run", choices=PACKAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sample = None if options.all else options.sample
    if options.run:
        run(options.run, sample, options.seed, options.modules)
        return
    known = accepted()
    killed = possible = 0
    for package in options.packages:
        directory = prepare(package)
        command = [sys.executable, __file__, "--run", package, *sys.argv[1:]]
        with (directory / "output.txt").open("wb") as output:
            done = subprocess.run(command, cwd=directory, stdout=output, stderr=output, check=False, timeout=TIMEOUT_S)
        if done.returncode:
            sys.exit(f"{package}: mutmut failed, see {directory / 'output.txt'}")
        more = report(package, directory, known)
        killed, possible = killed + more[0], possible + more[1]
    sys.exit(killed < LEAST_KILLED * possible)


if __name__ == "__main__":
    main()
