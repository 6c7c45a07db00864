"""The tests of docs/testing-schema-registry.md pass as they are."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytest.importorskip("confluent_kafka")
pytest.importorskip("httpx2")

_PAGE = (Path(__file__).parents[3] / "docs" / "testing-schema-registry.md").read_text(encoding="utf-8")
_GALLERY = _PAGE[_PAGE.index("## Gallery") :]


@pytest.mark.long
def test_the_gallery_passes(pytester: pytest.Pytester) -> None:
    imports, *examples = re.findall(r"```python\n(?:# gallery\n)?(.*?)```", _GALLERY, re.DOTALL)
    assert len(examples) >= 7
    pytester.makepyfile("\n\n".join((imports, *examples)))
    options = ("-p", "no:cacheprovider", "-p", "no:twisted_kafka", "-p", "twisted_kafka.testing.plugin", "-W", "ignore")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=len(examples))
