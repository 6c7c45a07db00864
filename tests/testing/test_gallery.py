"""The tests of docs/testing.md and of the README pass as they are."""

import importlib
import re
from pathlib import Path

import pytest

from tests.support.budget import first_of
from twisted_kafka.testing import Cluster, SchemaRegistry

pytest_plugins = ["pytester"]
for client in ("aiokafka", "confluent_kafka", "confluent_kafka.admin", "kafka"):
    pytest.importorskip(client)

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
_GALLERY = _PAGE[_PAGE.index("## Gallery") :].split("\n## ")[0]
_INTRODUCTION, *_SECTIONS = _GALLERY.split("\n### ")
_MAX_LINES = 15


def examples_of(section: str) -> list[str]:
    return re.findall(r"```python\n# gallery\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def everything_is_imported() -> None:
    """A pytest within this process forgets the modules that it has imported, and some of Twisted's cannot be imported twice."""
    importlib.import_module("twisted_kafka.testing.plugin")
    with Cluster(2) as cluster, SchemaRegistry(cluster):
        pass


@pytest.mark.long
@pytest.mark.usefixtures("everything_is_imported")
@pytest.mark.parametrize("section", first_of(_SECTIONS[::-1], 2), ids=lambda section: section.partition("\n")[0])
def test_the_gallery_passes(pytester: pytest.Pytester, section: str) -> None:
    (imports,) = re.findall(r"```python\n(.*?)```", _INTRODUCTION, re.DOTALL)
    examples = examples_of(section)
    run(pytester, "\n\n".join((imports, *examples))).assert_outcomes(passed=len(examples))


def run(pytester: pytest.Pytester, tests: str) -> pytest.RunResult:
    pytester.makepyfile(tests)
    options = ("-p", "no:cacheprovider", "-p", "no:twisted", "-p", "no:twisted_kafka", "-W", "ignore")
    return pytester.runpytest_inprocess(*options, "-p", "twisted_kafka.testing.plugin")


@pytest.mark.long
@pytest.mark.usefixtures("everything_is_imported")
def test_the_readmes_example_passes(pytester: pytest.Pytester) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (_ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 10
    run(pytester, example).assert_outcomes(passed=1)


def test_there_are_thirty_and_they_are_short() -> None:
    tests = [each for section in _SECTIONS for each in examples_of(section)]
    assert len(tests) >= 30
    assert all(len(each.splitlines()) <= _MAX_LINES for each in tests)
