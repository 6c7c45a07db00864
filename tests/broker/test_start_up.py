"""What a plain start imports: most of a start's time goes there, so what few brokers need is left for when they do."""

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.budget import patient
from twisted_kafka.system import start_up
from twisted_kafka.system.start_up import LongCollections, compile_loops, restart_interpreter, without_collector, without_tls
from twisted_kafka.timing.clock import ManualClock

pytestmark = pytest.mark.long
_START = """
import gc, json, sys
from twisted.internet import error  # as twistd has, before it looks for its plugins
from twisted.plugins.twisted_kafka_plugin import service_maker

options = service_maker.options()
options.parseOptions(["--listeners", "PLAINTEXT://127.0.0.1:0", "--data-dir", sys.argv[1]])
service = service_maker.makeService(options)
collections = []
getattr(gc, "callbacks", []).append(lambda phase, info: collections.append(info))
service.startService()
count = len(collections)
json.dump({"modules": sorted(sys.modules), "collections": count, "is_collecting": gc.isenabled()}, sys.stdout)
sys.stdout.flush()
service.broker.stop()
"""

LATER = {
    "argparse": "the command line of twisted-kafka",
    "confluent_kafka": "tests only",
    "cramjam": "the first batch with snappy",
    "crc32c": "never as a package: it looks up its own version (protocol/records/checksums.py)",
    "cryptography": "TLS listeners",
    "encodings.idna": "host names that are not ASCII",
    "google.protobuf": "clients that push metrics",
    "importlib.metadata": "the first connection to another broker",
    "jinja2": "the console",
    "kazoo": "a ZooKeeper",
    "lz4": "the first batch with lz4",
    "numpy": "the first large batch",
    "OpenSSL": "TLS listeners",
    "opentelemetry": "clients that push metrics",
    "prometheus_client": "the metrics endpoint",
    "pyarrow": "an access log in Parquet",
    "re2": "subscriptions by regular expression",
    "service_identity": "TLS connections to others",
    "twisted.web": "the metrics endpoint",
    "twisted_kafka.client": "other brokers",
    "twisted_kafka.console": "the console",
    "twisted_kafka.network.tls": "TLS listeners",
    "twisted_kafka.tls": "TLS listeners",
    "twisted_kafka.replication.alter_partition_manager": "replicas on other brokers",
    "twisted_kafka.replication.fetching": "leaders on other brokers",
    "twisted_kafka.tools": "the command line of twisted-kafka",
    "zstandard": "the first batch with zstd",
}

MAX_MODULES = 626
"""Most modules of this broker that a plain start imports; each takes 0.2 to 0.3 ms. For one more, find another that can wait."""


@pytest.fixture(scope="module")
def plain_start(tmp_path_factory: pytest.TempPathFactory) -> Any:
    here = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run(
        [sys.executable, "-c", _START, str(tmp_path_factory.mktemp("data"))],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=patient(60),
    )
    return json.loads(done.stdout)


def test_a_plain_start_imports_nothing_that_waits_for_its_first_use(plain_start: Any) -> None:
    loaded = plain_start["modules"]
    assert "twisted_kafka.network.loop.processor" in loaded  # it did start
    early = {name for name in loaded for later in LATER if name == later or name.startswith(later + ".")}
    assert early == set()


def test_a_plain_start_imports_no_more_modules(plain_start: Any) -> None:
    own = [name for name in plain_start["modules"] if name.split(".")[0] == "twisted_kafka"]
    assert len(own) <= MAX_MODULES


@pytest.mark.skipif(not hasattr(gc, "callbacks"), reason="PyPy's collector tells nobody")
def test_the_collector_does_not_run_while_the_broker_starts(plain_start: Any) -> None:
    assert plain_start["collections"] == 0
    assert plain_start["is_collecting"]


@pytest.mark.skipif(not hasattr(gc, "freeze"), reason="PyPy's collector has no such thing")
def test_the_collector_rests_meanwhile_and_runs_again_afterwards() -> None:
    frozen = gc.get_freeze_count()
    try:
        with without_collector():
            ran_meanwhile = gc.isenabled()
        assert not ran_meanwhile
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


def test_a_collector_that_somebody_has_stopped_stays_so() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


class Collector:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def freeze(self) -> None:
        self.told.append("freeze")

    def unfreeze(self) -> None:
        self.told.append("unfreeze")


def test_survivors_of_a_long_collection_are_exempt_for_an_hour() -> None:
    clock, collector = ManualClock(), Collector()
    collections = LongCollections(clock.monotonic_ns, collector)

    def collect(took_ms: float, generation: int = 2) -> list[str]:
        collections("start", {"generation": generation})
        clock.advance_ms(took_ms)
        collections("stop", {"generation": generation})
        told, collector.told = collector.told, []
        return told

    assert collect(99) == []
    assert collect(500, generation=1) == []
    assert collect(500) == ["freeze"]
    clock.advance_ms(1_800_000)
    assert collect(30) == []
    assert collect(100) == ["freeze"]
    clock.advance_ms(1_800_000)
    assert collect(600) == ["unfreeze", "freeze"]  # sees the garbage of the hour
    clock.advance_ms(3_600_000)
    assert collect(20) == ["unfreeze"]
    assert collect(20) == []


@pytest.mark.skipif(not hasattr(gc, "freeze"), reason="PyPy's collector has no such thing")
def test_the_collector_frees_the_garbage_of_the_hour() -> None:
    class Cyclic:
        def __init__(self) -> None:
            self.me = self

    frozen, now_ns = gc.get_freeze_count(), [0]
    collections = LongCollections(lambda: now_ns[0])
    gc.callbacks.append(collections)
    gc.callbacks.append(lambda phase, _: now_ns.__setitem__(0, now_ns[0] + (LongCollections.LONG_NS if phase == "start" else 0)))
    try:
        kept = Cyclic()
        gone = weakref.ref(kept)
        gc.collect()
        assert gc.get_freeze_count() > frozen
        del kept
        gc.collect()
        assert gone() is not None
        now_ns[0] += LongCollections.EXEMPT_NS
        gc.collect()
        assert gone() is None
    finally:
        del gc.callbacks[-2:]
        gc.unfreeze()


@pytest.mark.parametrize("needed", [True, False])
def test_tls_can_be_imported_after_it_was_left_out(needed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "OpenSSL", raising=False)
    with without_tls(needed):
        assert ("OpenSSL" in sys.modules) is not needed
    assert "OpenSSL" not in sys.modules


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str], dict[str, str]]]:
    """What would have been executed, of a twistd whose interpreter needs two settings, one of which the user has set."""
    executed: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(start_up, "MEMORY_SETTINGS", {"TEST_NURSERY": "4MB", "TEST_ARENAS": "1"})
    monkeypatch.setattr(start_up, "START_OPTIONS", ("--jit", "off"))
    monkeypatch.setattr(os, "execve", lambda *arguments: executed.append(arguments))
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/twistd", "-n", "kafka"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-X", "dev", "/somewhere/bin/twistd", "-n", "kafka"])
    monkeypatch.setenv("TEST_ARENAS", "2")
    return executed


def test_a_broker_restarts_with_the_settings_that_are_missing(restarts: Any) -> None:
    restart_interpreter()
    ((program, words, environment),) = restarts
    assert program == sys.executable
    assert words == [sys.executable, "--jit", "off", "-X", "dev", "/somewhere/bin/twistd", "-n", "kafka"]
    assert (environment["TEST_NURSERY"], environment["TEST_ARENAS"]) == ("4MB", "2")
    assert environment["PATH"] == os.environ["PATH"]


def test_the_users_own_options_of_the_compiler_are_kept(restarts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--jit", "threshold=500", "/somewhere/bin/twistd", "-n", "kafka"]
    monkeypatch.setattr(sys, "orig_argv", ["python", *words])
    restart_interpreter()
    assert restarts[0][1] == [sys.executable, *words]


@pytest.mark.parametrize(
    ("words", "expected"), [(["--jit", "off", "twistd"], ["default"]), (["--jit", "trace_limit=9", "twistd"], []), (["twistd"], [])]
)
def test_the_compiler_is_switched_on_if_the_restart_has_switched_it_off(
    words: list[str], expected: list[str], restarts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched: list[str] = []
    monkeypatch.setitem(sys.modules, "pypyjit", SimpleNamespace(set_param=switched.append))
    monkeypatch.setattr(sys, "orig_argv", ["python", *words])
    compile_loops()
    assert switched == expected


def test_a_broker_with_all_settings_does_not_restart(restarts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_NURSERY", "")
    restart_interpreter()
    assert restarts == []


def test_a_program_that_embeds_a_broker_does_not_restart(restarts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/pytest"])
    restart_interpreter()
    assert restarts == []
