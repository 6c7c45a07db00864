"""What Spark is started with: our settings for one machine, but for those that the user has made."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from twisted_kafka_spark.runtime import session


def test_settings_of_the_user_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    assert session.set_by_user() == set()
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.ui.enabled true\nspark.driver.memory 3g\nspark.sql.shuffle.partitions=7\n  spark.log.level: WARN\n"
    )
    assert session.set_by_user() == {"spark.driver.memory", "spark.sql.shuffle.partitions", "spark.log.level"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.driver.host=h --conf 'spark.ui.enabled=true' pyspark-shell")
    assert session.set_by_user() >= {"spark.driver.memory", "spark.driver.host", "spark.ui.enabled"}


def test_settings_of_the_user_are_not_overridden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 3g\n")
    ours = session.own_settings("local[3]")
    assert "spark.driver.memory" not in ours
    assert ours["spark.sql.shuffle.partitions"] == "6"
