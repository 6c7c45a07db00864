"""The jars of Spark's connector for Kafka."""

from pathlib import Path

import pytest

from twisted_kafka_spark.records.topic import package

REPOSITORY = Path.home() / ".m2" / "repository"


def connector() -> str:
    """Return the jars of Spark's connector for Kafka, or skip the test where Maven has not got them."""
    version = package().rpartition(":")[2]
    found = [
        *REPOSITORY.glob(f"org/apache/spark/spark-*kafka-0-10_2.13/{version}/*-{version}.jar"),
        *sorted(REPOSITORY.glob("org/apache/kafka/kafka-clients/*/kafka-clients-?.?.?.jar"))[-1:],
        *sorted(REPOSITORY.glob("org/apache/commons/commons-pool2/*/commons-pool2-*.jar"))[-1:],
    ]
    if len(found) < 4:
        pytest.skip(f"needs spark-sql-kafka-0-10_2.13:{version} in ~/.m2 (mvn dependency:get)")
    return ",".join(map(str, found))
