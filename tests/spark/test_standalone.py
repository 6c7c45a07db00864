"""A standalone cluster whose workers have neither the project nor more than they need: the same answers, whoever is killed."""

import json
import os
import socket
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark.s3_server import jars, s3_server
from tests.spark.standalone import HOME, LIBRARIES, Standalone, command, kill, python_with
from tests.support.eventually import eventually
from tests.support.processes import start_tied
from twisted_kafka_spark.synthetic.day import Day

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
TIMEOUT_S = 1200
LOOK_S = 0.2
"""Between two looks at all processes of the machine, which cost a part of what the cluster computes with."""
PACKAGE = Path(__file__).parent.parent.parent / "spark" / "twisted_kafka_spark"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    started = Standalone(tmp_path_factory.mktemp("cluster"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of the workers."""
    made = python_with(tmp_path_factory.mktemp("python"), LIBRARIES)
    imported = subprocess.run([made, "-c", "import twisted_kafka_spark"], capture_output=True, text=True, check=False, cwd="/")
    assert "No module named 'twisted_kafka_spark'" in imported.stderr
    return made


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("log")
    Day(60_000).write(made)
    return made


@pytest.fixture(scope="module")
def local(log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the threads of one process say."""
    out = tmp_path_factory.mktemp("local") / "report.html"
    subprocess.run(command("report", log, "--out", out), check=True, timeout=TIMEOUT_S)
    return answers(out)


def answers(page: Path) -> dict[str, Any]:
    document = json.loads(page.with_suffix(".json").read_text())
    source = document.pop("source")
    document.pop("made_by", None)
    return {**document, "lines": source["lines"], "samples": source["samples"]}


def environment(python: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON", "SPARK"))}
    return inherited | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}


def run_on(cluster: Standalone, python: str, *arguments: object) -> None:
    words = command(*map(str, arguments), "--master", cluster.url, "--conf", "spark.executor.memory=600m")
    done = subprocess.run(words, env=environment(python), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def run_with_a_kill(cluster: Standalone, python: str, *arguments: object) -> None:
    """Run a command, and kill an executor while it works."""
    words = command(*map(str, arguments), "--master", cluster.url, "--conf", "spark.executor.memory=600m")
    with start_tied(words, env=environment(python), stderr=subprocess.PIPE, text=True) as running:
        victim = eventually(lambda: cluster.busy_executors() or running.poll() is not None, wait_s=TIMEOUT_S, pause_s=LOOK_S)
        assert victim is not True, running.stderr.read() if running.stderr else ""
        kill(victim[0])
        _, said = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, said[-3000:]


def zipped(path: Path) -> None:
    """Make a zip of the package."""
    with zipfile.ZipFile(path, "w") as file:
        for source in PACKAGE.rglob("*.*"):
            file.write(source, source.relative_to(PACKAGE.parent))


@pytest.mark.parametrize("options", [(), ("--filter", "true")], ids=["lines", "records"])
def test_a_report_is_the_same_although_an_executor_is_killed(
    cluster: Standalone, python: str, log: Path, local: dict[str, Any], tmp_path: Path, options: tuple[str, ...]
) -> None:
    run_with_a_kill(cluster, python, "report", log, "--out", tmp_path / "report.html", *options)
    assert answers(tmp_path / "report.html") == local


def test_a_rollup_is_the_same_although_an_executor_is_killed(
    cluster: Standalone, python: str, log: Path, local: dict[str, Any], tmp_path: Path
) -> None:
    rolled = tmp_path / "rolled"
    run_with_a_kill(cluster, python, "rollup", log, "--out", rolled)
    files = sorted(rolled.rglob("*.parquet"))
    assert len({path.parent for path in files}) == len(files)
    run_on(cluster, python, "report", "--merge", rolled, "--out", tmp_path / "merged.html")
    assert answers(tmp_path / "merged.html") == local


def test_spark_submit_needs_a_zip_of_the_package(
    cluster: Standalone, python: str, log: Path, local: dict[str, Any], tmp_path: Path
) -> None:
    zipped(tmp_path / "twisted_kafka_spark.zip")
    (tmp_path / "run.py").write_text("import sys; from twisted_kafka_spark.cli import main; sys.exit(main())\n")
    (tmp_path / "empty").mkdir()
    words = [f"{HOME}/bin/spark-submit", "--master", cluster.url, "--executor-memory", "600m"]
    words += ["--py-files", f"{tmp_path}/twisted_kafka_spark.zip", f"{tmp_path}/run.py"]
    words += ["report", str(log), "--out", f"{tmp_path}/report.html", "--quiet"]
    done = subprocess.run(
        words,
        env=environment(python) | {"SPARK_HOME": str(HOME), "PYSPARK_DRIVER_PYTHON": python},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=tmp_path / "empty",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert answers(tmp_path / "report.html") == local


def test_what_the_workers_python_lacks_is_one_line(cluster: Standalone, log: Path, tmp_path: Path) -> None:
    bare = python_with(tmp_path / "bare", ())
    words = command("report", log, "--out", tmp_path / "report.html", "--master", cluster.url)
    words += ["--conf", "spark.executor.memory=600m"]
    done = subprocess.run(words, env=environment(bare), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert "No module named 'numpy': the workers' Python lacks it" in said or "No module named 'pyarrow'" in said
    assert not (tmp_path / "report.html").exists()


def submitted(cluster: Standalone, python: str, place: Path, *arguments: object, jars: str = "", more: Sequence[str] = ()) -> str:
    """Run a command as a driver on one of the machines; return what it has printed.

    spark-submit itself takes no application in Python with `--deploy-mode cluster` on a standalone cluster; its own class that
    runs one does it.
    """
    place.mkdir()
    zipped(place / "twisted_kafka_spark.zip")
    (place / "run.py").write_text("import sys; from twisted_kafka_spark.cli import main; sys.exit(main())\n")
    (core,) = Path(HOME, "jars").glob("spark-core_*.jar")
    settings = {"spark.pyspark.python": python, "spark.executorEnv.PYSPARK_PYTHON": python, "spark.cores.max": "1"}
    settings |= dict.fromkeys(("spark.files", "spark.submit.pyFiles"), f"{place}/twisted_kafka_spark.zip")
    settings |= {"spark.standalone.submit.waitAppCompletion": "true", "spark.driver.extraClassPath": jars.replace(",", ":")}
    settings |= {"spark.executor.extraClassPath": jars.replace(",", ":")}
    words = [f"{HOME}/bin/spark-submit", "--master", cluster.url, "--deploy-mode", "cluster", "--driver-memory", "500m"]
    words += ["--executor-memory", "500m", *more]
    words += [word for name, value in settings.items() if value for word in ("--conf", f"{name}={value}")]
    words += ["--class", "org.apache.spark.deploy.PythonRunner", str(core), f"{place}/run.py", f"{place}/twisted_kafka_spark.zip"]
    done = subprocess.run(
        [*words, *map(str, arguments)],
        env=environment(python) | {"SPARK_HOME": str(HOME)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    said = [path.read_text() for path in sorted(cluster.directory.glob("worker-*/driver-*/stdout"))]
    assert done.returncode == 0, (done.stderr[-2000:], said)
    return said[-1]


def test_the_page_survives_cluster_deploy_mode(
    cluster: Standalone, python: str, log: Path, local: dict[str, Any], tmp_path: Path
) -> None:
    said = submitted(cluster, python, tmp_path / "submitted", "report", log, "--out", (tmp_path / "report.html").as_uri())
    assert answers(tmp_path / "report.html") == local
    assert f"{tmp_path}/report.html on {socket.gethostname()}" in said


def test_a_driver_on_the_cluster_writes_to_an_object_store(
    cluster: Standalone, python: str, log: Path, local: dict[str, Any], tmp_path: Path
) -> None:
    with s3_server() as store:
        out = ("--out", "s3a://logs/page/report.html")
        submitted(cluster, python, tmp_path / "submitted", "report", log, *out, "--quiet", jars=jars(), more=store.settings())
        (tmp_path / "report.json").write_bytes(store.get("page/report.json"))
        assert answers(tmp_path / "report.html") == local
        assert store.get("page/report.html").startswith(b"<!doctype html>")
