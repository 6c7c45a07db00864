"""The tests of docs/testing.md pass as they are."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytest.importorskip("confluent_kafka")

_PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
_MAX_LINES = 15


def test_the_gallery_passes(pytester: pytest.Pytester) -> None:
    tests = re.findall(r"```python\n# gallery\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert all(len(each.splitlines()) <= _MAX_LINES for each in tests)
    pytester.makepyfile("from confluent_kafka import Consumer, Producer\n\n\n" + "\n\n".join(tests))
    options = ("-p", "no:cacheprovider", "-p", "no:twisted_kafka", "-p", "twisted_kafka.testing.plugin")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=len(tests))
    assert len(tests) >= 5
