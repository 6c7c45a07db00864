"""What messages say about missing packages works, however the broker was installed."""

import json
import re
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from twisted_kafka.system.installation import Installation, install_command, present_installation

METADATA = """Metadata-Version: 2.4
Name: twisted_kafka
Version: 1
Requires-Dist: twisted>=24.7
Provides-Extra: fast
Requires-Dist: numpy>=1.26; platform_python_implementation == "CPython" and extra == "fast"
Provides-Extra: zookeeper
Requires-Dist: kazoo>=2.10; extra == "zookeeper"
Provides-Extra: zookeeper-sasl
Requires-Dist: twisted_kafka[zookeeper]; extra == "zookeeper-sasl"
Requires-Dist: pure-sasl>=0.6; extra == "zookeeper-sasl"
Provides-Extra: testing
Requires-Dist: pytest-twisted-kafka; extra == "testing"
Requires-Dist: ruamel.yaml>=0.18; extra == "testing"
"""


def metadata(folder: Path, source: str | None) -> Distribution:
    info = folder / "twisted_kafka-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    if source is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": source, "dir_info": {}}))
    return PathDistribution(info)


def clone(path: Path) -> Path:
    (path / "twisted_kafka").mkdir(parents=True)
    (path / "pyproject.toml").touch()
    return path


def test_an_editable_installation_stays_editable(tmp_path: Path) -> None:
    there = clone(tmp_path / "my clone")
    installation = Installation(there, None)
    assert installation.command_for("fast") == f"pip install --editable '{there}[fast]'"
    assert installation.command_for("testing") == (f"pip install --editable '{there}[testing]' --editable '{there}/pytest_plugin'")
    assert installation.command_for_report() == f"pip install '{there}/spark'"


def test_the_clone_that_it_was_installed_from_is_named(tmp_path: Path) -> None:
    there, site = clone(tmp_path / "my clone"), tmp_path / "site-packages"
    installation = Installation(site, metadata(site, there.as_uri()))
    assert installation.command_for("zookeeper") == f"pip install '{there}[zookeeper]'"
    assert installation.command_for("testing") == f"pip install '{there}[testing]' '{there}/pytest_plugin'"
    assert installation.command_for_report() == f"pip install '{there}/spark'"


def test_without_a_clone_the_packages_are_named(tmp_path: Path) -> None:
    for number, source in enumerate(
        (None, "file:///gone/clone", "file:///dist/twisted_kafka-1-py3-none-any.whl", "https://host/a.git")
    ):
        site = tmp_path / str(number)
        installation = Installation(site, metadata(site, source))
        assert installation.clone() is None
        assert installation.command_for("fast") == "pip install 'numpy>=1.26'"
        assert installation.command_for("zookeeper-sasl") == "pip install 'kazoo>=2.10' 'pure-sasl>=0.6'"
        assert installation.command_for("testing") == "pip install 'ruamel.yaml>=0.18'"
        assert installation.command_for_report() == "pip install CLONE/spark"


def test_the_tests_run_in_a_clone() -> None:
    there = present_installation().clone()
    assert there == Path(__file__).resolve().parents[2]
    assert install_command("regex") == Installation(there, None).command_for("regex")


@pytest.mark.medium
def test_nothing_tells_users_to_install_from_an_index() -> None:
    root = Path(__file__).resolve().parents[2]
    files = [path for path in root.glob("*.md") if path.name != "CHANGELOG.md"]
    for folder in ("docs", "examples", "pytest_plugin", "spark", "twisted_kafka"):
        files += [path for path in (root / folder).rglob("*") if path.suffix in (".py", ".js", ".go", ".java", ".md")]
    for path in files:
        if "node_modules" not in path.parts:
            assert re.search(r"""install ["']?(?:pytest[_-])?twisted[_-]kafka(?!-\S*\.whl)""", path.read_text()) is None, path
