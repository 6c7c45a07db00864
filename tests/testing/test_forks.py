"""Processes that are forked while a broker runs, and processes whose threads are not Python's own."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.budget import first_of, patient
from twisted_kafka.broker.errors import StartError
from twisted_kafka.testing import Broker

pytestmark = pytest.mark.long

_CHILD = """
import os, stat, sys, threading
from pathlib import Path
from twisted_kafka.testing import Broker, Cluster

def held():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass
    return [each for each in found if each.startswith(("socket:", "anon_inode:")) or each.endswith((".owned", ".lock"))]

def child(kafka):
    assert held() == BEFORE, held()
    assert threading.active_count() == 1
    assert not kafka.is_running
    assert kafka.bootstrap_servers
    try:
        kafka.produce("orders", "no")
    except Exception as error:
        assert "the process from which this one was forked" in str(error), error
    kafka.stop()
    sys.exit(7)  # through the with block, and through all finalizers

def forked(kafka):
    process_id = os.fork()
    if process_id == 0:
        child(kafka)
    assert os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 7

BEFORE = held()
"""
_PARENT = """
with MAKE as kafka:
    kafka.create_topic("orders", partitions=3)
    kafka.produce("orders", ["1"] * 10)
    forked(kafka)
    kafka.produce("orders", "2")
    assert len(kafka.records("orders")) == 11
    kafka.restart()
    assert len(kafka.records("orders")) == 11
    forked(kafka)
    kafka.restore(kafka.snapshot())
    kafka.create_topic("bills")
    assert len(kafka.records("orders")) == 11
    kafka.reset()
print("ok")
"""


def run(tmp_path: Path, program: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "program.py"
    path.write_text(program)
    return subprocess.run([sys.executable, "-W", "ignore", path], capture_output=True, text=True, timeout=patient(60), cwd=tmp_path)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="/proc tells what a process holds")
@pytest.mark.parametrize("make", first_of(["Broker()", "Cluster(2)", "Broker(data_dir='data')"]))
def test_a_forked_process_keeps_nothing_and_leaves_the_data_alone(tmp_path: Path, make: str) -> None:
    program = _CHILD + _PARENT.replace("MAKE", make)
    if "data_dir" in make:
        program = program.replace("    kafka.reset()\n", "")
    done = run(tmp_path, program)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr


def test_a_worker_that_lives_on_does_not_keep_the_port(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import multiprocessing
from twisted_kafka.testing import Broker

def work(done):
    done.wait(60)

fork = multiprocessing.get_context("fork")
with Broker() as broker:
    broker.create_topic("orders")
    snapshot = broker.snapshot()
    done = fork.Event()
    worker = fork.Process(target=work, args=(done,), daemon=True)
    worker.start()
    broker.restore(snapshot)
    broker.reset()
    broker.restart()
    done.set()
    worker.join(30)
    assert worker.exitcode == 0
    print("ok")
""",
    )
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr


@pytest.mark.slow
def test_the_default_reactor_is_the_applications_to_choose(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import sys
from twisted_kafka.testing import Broker, Cluster

for kafka in (Broker(), Cluster(2)):
    with kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", "1")
        assert len(kafka.records("orders")) == 1
print("twisted.internet.reactor" in sys.modules)
""",
    )
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(
    ("name", "patch", "told"),
    [
        (
            "gevent.monkey",
            SimpleNamespace(is_module_patched=lambda name: name in ("threading", "queue")),
            "gevent has patched threading, queue, and a broker needs Python's own: use gevent.monkey.patch_all(thread=False, ",
        ),
        (
            "eventlet.patcher",
            SimpleNamespace(is_monkey_patched=lambda name: name == "thread"),
            "eventlet has patched threads, and a broker needs Python's own: leave out thread and select, or start ",
        ),
    ],
)
def test_a_process_without_threads_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, name: str, patch: SimpleNamespace, told: str
) -> None:
    monkeypatch.setitem(sys.modules, name, patch)
    with pytest.raises(StartError) as refused, Broker():
        pass
    assert str(refused.value).startswith(told)


def test_a_process_with_gevent_serves_or_says_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("gevent")
    serves = "from twisted_kafka.testing import Broker\nwith Broker() as kafka:\n    print(kafka.create_topic('orders'))\n"
    patched = "from gevent import monkey\nmonkey.patch_all({})\n"
    done = run(tmp_path, patched.format("thread=False, select=False, queue=False") + serves)
    assert done.stdout == "orders\n", done.stderr
    done = run(tmp_path, patched.format("") + serves)
    assert "StartError: gevent has patched threading, select, queue" in done.stderr
