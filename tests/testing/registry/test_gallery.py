"""The tests of docs/testing-schema-registry.md pass as they are."""

import importlib
import re
from pathlib import Path

import pytest

from twisted_kafka.testing import Broker, SchemaRegistry

pytest_plugins = ["pytester"]
pytest.importorskip("confluent_kafka")
pytest.importorskip("httpx2")

_PAGE = (Path(__file__).parents[3] / "docs" / "testing-schema-registry.md").read_text(encoding="utf-8")
_GALLERY = _PAGE[_PAGE.index("## Gallery") :]


@pytest.fixture(scope="module")
def everything_is_imported() -> None:
    """A pytest within this process forgets the modules that it has imported, and some of Twisted's cannot be imported twice."""
    importlib.import_module("twisted_kafka.testing.plugin")
    with Broker() as broker, SchemaRegistry(broker):
        pass


@pytest.mark.slow
@pytest.mark.usefixtures("everything_is_imported")
def test_the_gallery_passes(pytester: pytest.Pytester) -> None:
    imports, *examples = re.findall(r"```python\n(?:# gallery\n)?(.*?)```", _GALLERY, re.DOTALL)
    assert len(examples) >= 7
    pytester.makepyfile("\n\n".join((imports, *examples)))
    options = ("-p", "no:cacheprovider", "-p", "no:twisted", "-p", "no:twisted_kafka", "-W", "ignore")
    result = pytester.runpytest_inprocess(*options, "-p", "twisted_kafka.testing.plugin")
    result.assert_outcomes(passed=len(examples))
