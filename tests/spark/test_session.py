"""What Spark is started with: our settings for one machine, but for those that the user has made."""

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from twisted_kafka_spark.runtime import session
from twisted_kafka_spark.runtime.spark_errors import in_one_line


def test_settings_of_the_user_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    assert session.set_by_user() == {}
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.ui.enabled true\nspark.driver.memory 3g\nspark.sql.shuffle.partitions=7\n  spark.log.level: WARN\n"
    )
    in_file = {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "7", "spark.log.level": "WARN"}
    assert session.set_by_user() == in_file
    submit = "--master spark://h:7077 --conf spark.driver.host=h --conf='spark.ui.enabled=true' pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit)
    in_submit = {"spark.master": "spark://h:7077", "spark.driver.host": "h", "spark.ui.enabled": "true"}
    assert session.set_by_user() == in_file | in_submit
    (tmp_path / "other.conf").write_text("spark.log.level ERROR\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file={tmp_path / 'other.conf'} --driver-memory 5g pyspark-shell")
    assert session.set_by_user() == {"spark.log.level": "ERROR", "spark.driver.memory": "5g"}
    assert session.set_by_user(["spark.driver.host=g", "spark.x=a=b"])["spark.driver.host"] == "g"
    with pytest.raises(ValueError, match="is not a setting"):
        session.set_by_user(["driver.host=g"])


def test_settings_of_the_user_are_not_overridden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 3g\n")
    ours = session.own_settings("local[3]", session.set_by_user(["spark.ui.enabled=true"]))
    assert not {"spark.driver.memory", "spark.ui.enabled"} & set(ours)
    assert (ours["spark.sql.shuffle.partitions"], ours["spark.driver.host"]) == ("6", "127.0.0.1")
    theirs = {"spark.executor.extraJavaOptions": "-Xss4m"}
    assert not theirs.keys() & session.own_settings("spark://master:7077", theirs).keys()


def test_packages_and_jars_of_the_user_are_added_to() -> None:
    ours, kafka = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka:4.2.0"}, "org.apache.spark:spark-sql-kafka:4.1.0"
    assert session.added({}, ours) == ours
    assert session.added({"spark.jars.packages": "a:b:1"}, ours) == {
        "spark.jars.packages": "a:b:1,org.apache.spark:spark-sql-kafka:4.2.0"
    }
    assert session.added({"spark.jars.packages": f"a:b:1,{kafka}"}, ours) == {}, "another version is the user's choice"
    assert session.added({"spark.jars": "a.jar"}, {"spark.jars": "b.jar"}) == {"spark.jars": "a.jar,b.jar"}
    assert session.added({"spark.ui.enabled": "true"}, {"spark.ui.enabled": "false"}) == {}


def test_a_cluster_is_not_told_to_reach_the_driver_on_this_machine() -> None:
    ours = session.own_settings("spark://master:7077", {})
    assert not [name for name in ours if name.startswith(("spark.driver.host", "spark.driver.bind", "spark.sql.shuffle"))]


def test_paths_are_elsewhere_only_if_hadoop_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    assert not session.may_have_other_default()
    assert session.may_have_other_default(["spark.hadoop.fs.defaultFS=hdfs://name:8020"])
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert session.may_have_other_default()


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "An error occurred while calling o5.getFileSystem.\n: java.lang.RuntimeException: java.lang.ClassNotFoundException: "
            "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat org.apache.Foo.bar(Foo.java:1)",
            "S3AFileSystem not found: add its jar: --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:",
        ),
        (
            "java.lang.NoClassDefFoundError: org/apache/kafka/common/serialization/ByteArraySerializer\n\tat org.apache.Foo",
            "ByteArraySerializer: a jar of Spark's connector for Kafka is missing",
        ),
        ("java.lang.ClassNotFoundException: com.example.Codec", "Codec: add its jar: --conf spark.jars.packages=GROUP:ARTIFACT"),
        (
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"\n\tat org.apache.Foo',
            'No FileSystem for scheme "s3": S3 is s3a:// in Hadoop',
        ),
        (
            "org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
            "Traceback (most recent call last):\n  File \"worker.py\", line 1\nModuleNotFoundError: No module named 'numpy'\n",
            "ModuleNotFoundError: No module named 'numpy': the workers' Python lacks it",
        ),
        ("Traceback\nModuleNotFoundError: No module named 'pyarrow'\n", "No module named 'pyarrow': the workers' Python lacks it"),
        ("Job aborted\nCaused by: java.nio.file.AccessDeniedException: s3a://b/x: 403", "Job aborted: check the credentials"),
        ("x: Forbidden (Service: S3, Status Code: 403, Request ID: 1)\n\tat org.apache", "Request ID: 1): check the credentials"),
        (
            "java.net.ConnectException: Call From a to h:40312 failed: Connection refused\n\tat org.apache.Foo.bar(Foo.scala:403)",
            "Connection refused: check the address and the network",
        ),
        ("[SOMETHING] else\n\tat org.apache", "[SOMETHING] else (--verbose shows more)"),
    ],
)
def test_an_error_of_spark_is_one_line_with_what_to_do(message: str, line: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(RuntimeError) as raised, in_one_line():
        raise PySparkException(message)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)
    with pytest.raises(PySparkException), in_one_line(is_verbose=True):
        raise PySparkException(message)


def test_the_package_for_workers_is_there_when_they_fetch_it(tmp_path: Path) -> None:
    """They start, and fetch it, at any time until Spark stops."""
    sent: list[str] = []
    session._ship(cast("Any", SimpleNamespace(_temp_dir=str(tmp_path), addPyFile=sent.append)))
    assert [zipfile.is_zipfile(path) for path in sent] == [True]
