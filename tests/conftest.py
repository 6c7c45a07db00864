"""What holds for the tests of every folder."""

import functools
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from twisted.logger import globalLogBeginner

from tests.support.budget import PATIENCE, patient, share_of
from tests.support.costs import Costs
from tests.support.eventually import LIBRDKAFKA_CLOSING, join
from tests.support.forked import Forks
from tests.support.zookeeper import ZooKeeper, needs_zookeeper
from twisted_kafka.system.interpreter import IS_PYPY

# Until logging begins, which it does in no test, the last 200 events are kept: with the exceptions in them, and with these whole
# brokers and their open files.
globalLogBeginner._temporaryObserver.removeObserver(globalLogBeginner._initialBuffer)  # type: ignore[attr-defined]

# How long an example takes depends on what else the machine does.
settings.register_profile("tests", max_examples=share_of(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

_spark_threads: set[threading.Thread] = set()

_MANY_DESCRIPTORS = 1000

ON_ZOOKEEPER = {"tests/metadata/test_stores.py", "tests/metadata/test_zookeeper_store.py", "tests/broker/test_zookeeper.py"}

_NOT_OURS = ("kafka-io-kafka-python-", LIBRDKAFKA_CLOSING)
"""kafka-python leaves the first one when a client cannot connect."""


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """The Spark session of all tests: it takes seconds to start, and a process can have only one."""
    pytest.importorskip("pyspark")
    from twisted_kafka_spark.runtime import session

    before = set(threading.enumerate())
    try:
        started = session.start("local[2]", application="tests")
    except session.SparkUnavailableError as error:
        pytest.skip(str(error))
    started.conf.set("spark.sql.shuffle.partitions", "2")
    _spark_threads.update(set(threading.enumerate()) - before)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """The ZooKeeper of all tests of this process: each uses a path of its own on it."""
    needs_zookeeper()
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fail when a module's tests leave threads behind: what they count or slow down later is another test's."""
    before = set(threading.enumerate())
    yield
    join(each for each in threading.enumerate() if each not in before | _spark_threads and not _is_a_librarys(each))


@pytest.fixture(autouse=IS_PYPY)
def what_was_abandoned_is_closed() -> Iterator[None]:
    """On PyPy, collect what tests of crashes leave open: it does so after a while only, and descriptors run out before."""
    yield
    if len(os.listdir("/proc/self/fd")) > _MANY_DESCRIPTORS:
        gc.collect()


def _is_a_librarys(thread: threading.Thread) -> bool:
    # py4j's finalizer lives as long as the process, once there was a Spark session, and so does what calls foreachBatch.
    runs = getattr(thread, "_target", None)
    return thread.name.startswith(_NOT_OURS) or any(
        str(getattr(each, "__module__", "")).startswith("py4j.") for each in (type(thread), runs)
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks", type=int, default=0, metavar="N", help="Fork N processes after the collection, which run the tests."
    )


def pytest_configure(config: pytest.Config) -> None:
    if count := config.getoption("forks"):
        config.pluginmanager.register(Forks(config, count, _scope))
    if "not medium" in config.getoption("markexpr"):
        config.pluginmanager.register(Costs())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let tests take longer on a busy machine, and put them into the order of a run with several workers.

    What takes longest comes first, so that short tests keep all workers busy to the end. Tests that wait for programs are spread
    among those that compute: together they would leave the processors idle.
    """
    if PATIENCE != 1:
        for item in items:
            _extend_timeout(item)
    if not hasattr(config, "workerinput") and not config.getoption("forks"):
        return
    long, medium = ({item.path for item in items if any(map(item.get_closest_marker, names))} for names in _MARKS)
    items.sort(key=lambda item: (_scope(item.nodeid) != _ON_SPARK, item.path not in long, item.path not in medium))
    modules = list(dict.fromkeys(_scope(item.nodeid) for item in items))
    waiting = [each for each in modules if each.startswith(_PROGRAMS)]
    others = [each for each in modules if not each.startswith(_PROGRAMS)]
    places = {each: at / len(others) for at, each in enumerate(others)}
    places |= {each: _WAITING_SHARE * at / len(waiting) for at, each in enumerate(waiting)}
    items.sort(key=lambda item: places[_scope(item.nodeid)])


def _extend_timeout(item: pytest.Item) -> None:
    """Multiply the test's limit of time, which ends a hang, by ``PATIENCE``."""
    marker = item.get_closest_marker("timeout")
    timeout_s = float(item.config.getini("timeout")) if marker is None else float(marker.args[0])
    item.add_marker(pytest.mark.timeout(patient(timeout_s)), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect tests without garbage collections, and keep the tests out of later ones: each would look at a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        if not IS_PYPY:
            gc.collect()
            gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With ``--dist loadscope``: keep on one worker what shares fixtures: a module, all on Spark, all on ZooKeeper."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByFixtures(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    config.option.loadscopereorder = False  # in the order of ``pytest_collection_modifyitems``
    return ByFixtures(config, log)


_MARKS = (("long", "slow"), ("medium",))
_ON_SPARK = "on Spark"
_PROGRAMS = ("tests/testing/", "tests/clients/", "tests/cluster/", "tests/tools/")
"""The folders whose tests start programs, or wait."""
_WAITING_SHARE = 0.8
"""The last of their modules begins with this share of all others: a module that waits at the end would delay it."""


def _scope(nodeid: str) -> str:
    module = nodeid.partition("::")[0]
    if module in ON_ZOOKEEPER:
        return "on ZooKeeper"
    return _ON_SPARK if _uses_spark(module) else module


@functools.cache
def _uses_spark(module: str) -> bool:
    """Whether a test of the module asks for the session. Many tests of the report need no Spark, and run beside those that do."""
    return "spark: Any" in (Path(__file__).parents[1] / module).read_text(encoding="utf-8")
