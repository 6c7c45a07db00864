import threading
from collections.abc import Iterator

import pytest

from tests.eventually import join

_session_threads: set[threading.Thread] = set()


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """The Spark session of all tests in this directory, because it takes seconds to start."""
    pytest.importorskip("pyspark")
    from twisted_kafka_spark import session

    before = set(threading.enumerate())
    try:
        started = session.start("local[2]", application="tests")
    except session.SparkUnavailableError as error:
        pytest.skip(str(error))
    started.conf.set("spark.sql.shuffle.partitions", "2")
    _session_threads.update(set(threading.enumerate()) - before)
    yield started
    started.stop()


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fail when a module's tests leave threads behind, other than those of the Spark session, which outlives the module."""
    before = set(threading.enumerate())
    yield
    join(each for each in threading.enumerate() if each not in before | _session_threads)
