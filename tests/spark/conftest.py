from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """The Spark session of all tests in this directory, because it takes seconds to start."""
    pytest.importorskip("pyspark")
    from twisted_kafka_spark import session

    try:
        started = session.start("local[2]", application="tests")
    except session.SparkUnavailableError as error:
        pytest.skip(str(error))
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()
