"""The tests of docs/testing.md pass as they are."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
for client in ("aiokafka", "confluent_kafka", "kafka"):
    pytest.importorskip(client)

_PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
_GALLERY = _PAGE[_PAGE.index("## Gallery") :].split("\n## ")[0]
_IMPORTS, *_SECTIONS = _GALLERY.split("\n### ")
_MAX_LINES = 15


def examples_of(section: str) -> list[str]:
    return re.findall(r"```python\n# gallery\n(.*?)```", section, re.DOTALL)


@pytest.mark.long
def test_the_gallery_passes(pytester: pytest.Pytester) -> None:
    (imports,) = re.findall(r"```python\n(.*?)```", _IMPORTS, re.DOTALL)
    tests = {_module_of(section): examples_of(section) for section in _SECTIONS}
    pytester.makepyfile(**{name: "\n\n".join((imports, *examples)) for name, examples in tests.items()})
    options = ("-p", "no:cacheprovider", "-p", "no:twisted_kafka", "-p", "twisted_kafka.testing.plugin", "-W", "ignore")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=sum(map(len, tests.values())))


def _module_of(section: str) -> str:
    title = section.splitlines()[0].lower()
    return "test_" + re.sub(r"\W+", "_", title)


def test_there_are_thirty_and_they_are_short() -> None:
    tests = [each for section in _SECTIONS for each in examples_of(section)]
    assert len(tests) >= 30
    assert all(len(each.splitlines()) <= _MAX_LINES for each in tests)
