"""Runs tests in processes that are forked after one collection (``--forks 4``).

Each worker of pytest-xdist collects all tests and sends six messages for each test: a fifth of the processor time of a run. Here, a
worker sends one. The parent reports the test to pytest as if it had run it, without the output of a test that passed.
"""

import atexit
import mmap
import os
import pickle
import selectors
import signal
import struct
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.config import create_terminal_writer
from _pytest.junitxml import xml_key

_NUMBER = struct.Struct("!i")
_READ_BYTES = 1 << 20
_OF_THE_PARENT = ("terminalreporter", "terminalprogress", "lfplugin", "nfplugin", "stepwiseplugin")
"""Plug-ins that report or store results."""
_END_S = 20.0
"""How long interrupted workers may take to end their fixtures, and with them the programs that these have started."""
_SENT_OF_A_SUCCESS = ("duration", "start", "stop", "cost_s")


class _Worker:
    """A process, and what it has sent."""

    def __init__(self, number: int, process_id: int, pipe: int) -> None:
        self.number, self.process_id, self.pipe = number, process_id, pipe
        self._data = bytearray()

    def read(self) -> list[Any] | None:
        """Return the messages that have arrived, or None at the end of the pipe."""
        data = os.read(self.pipe, _READ_BYTES)
        self._data += data
        return list(self._messages()) if data else None

    def _messages(self) -> Iterator[Any]:
        while len(self._data) >= _NUMBER.size:
            end = _NUMBER.size + _NUMBER.unpack_from(self._data)[0]
            if len(self._data) < end:
                return
            yield pickle.loads(bytes(self._data[_NUMBER.size : end]))
            del self._data[:end]


class Forks:
    """The plug-in of the parent. ``scope`` names the part to which the test with an id belongs; a part is run by one worker."""

    def __init__(self, config: Any, count: int, scope: Callable[[str], str]) -> None:
        self._config, self._count, self._scope = config, count, scope
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._running = mmap.mmap(-1, _NUMBER.size * count)
        """The index of the test that each worker runs."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        options = session.config.option
        if options.collectonly or (session.testsfailed and not options.continue_on_collection_errors):
            return None  # pytest's own loop says so
        if threading.active_count() > 1:
            raise pytest.UsageError(f"--forks: a module that was collected has started threads: {threading.enumerate()}")
        self._items = session.items
        self._divide()
        try:
            for number in range(min(self._count, len(self._parts))):
                self._fork(number, [])
            while self._workers:
                for key, _ in self._selector.select():
                    self._take(key.data)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
        finally:
            self._stop()
        return True

    def _stop(self) -> None:
        """Interrupt the workers that are left, and kill those that do not end."""
        for worker in self._workers:
            os.kill(worker.process_id, signal.SIGINT)
        end = time.monotonic() + _END_S
        while self._workers and (ready := self._selector.select(max(0.0, end - time.monotonic()))):
            for key, _ in ready:
                if key.data.read() is None:
                    self._end(key.data)
        for worker in list(self._workers):
            os.kill(worker.process_id, signal.SIGKILL)
            self._end(worker)

    def _divide(self) -> None:
        """Put the numbers of all parts into a pipe, from which each worker reads its next one. A thousand take 4 KB of it."""
        parts: dict[str, list[int]] = {}
        for index, item in enumerate(self._items):
            parts.setdefault(self._scope(item.nodeid), []).append(index)
        self._parts = list(parts.values())
        self._left, filling = os.pipe()
        os.write(filling, b"".join(map(_NUMBER.pack, range(len(parts)))))
        os.close(filling)

    def _fork(self, number: int, rest: list[int]) -> None:
        """Start a worker. It begins with the ``rest`` of a part if there is one."""
        directory = self._config._tmp_path_factory.getbasetemp()
        reading, writing = os.pipe()
        process_id = os.fork()
        if process_id == 0:
            try:
                os.setpgid(0, 0)  # a keyboard's interrupt reaches the parent, which passes it on once
                _become_worker(self._config, directory / f"worker-{os.getpid()}")
                self._work(number, rest, _Sender(self._config, writing))
            except BaseException:  # noqa: BLE001 the parent raises it
                _send(writing, "error", traceback.format_exc())
                self._items[0].session._setupstate.teardown_exact(None)
            finally:
                atexit._run_exitfuncs()
                os._exit(0)
        os.close(writing)
        worker = _Worker(number, process_id, reading)
        self._workers.append(worker)
        self._selector.register(reading, selectors.EVENT_READ, worker)

    def _take(self, worker: _Worker) -> None:
        messages = worker.read()
        if messages is None:
            self._replace(worker, self._end(worker))
            return
        for kind, *values in messages:
            match kind:
                case "test":
                    index, reports = values
                    self._report(index, [self._report_of(index, *each) for each in reports])
                case "warning":
                    text, category, filename, line_number, nodeid = values
                    kinds: Any = type(category, (Warning,), {})
                    message = warnings.WarningMessage(text, kinds, filename, line_number)
                    known = {"warning_message": message, "when": "runtest", "nodeid": nodeid, "location": None}
                    self._config.hook.pytest_warning_recorded.call_historic(kwargs=known)
                case "end":
                    self._end(worker)
                case _:
                    raise RuntimeError(f"a worker failed:\n{values[0]}")

    def _report_of(self, index: int, when: str, sent: dict[str, Any]) -> Any:
        if not when:
            return self._config.hook.pytest_report_from_serializable(config=self._config, data=sent)
        item: Any = self._items[index]
        return pytest.TestReport(item.nodeid, item.location, {}, "passed", None, when, **sent)  # type: ignore[arg-type]

    def _report(self, index: int, reports: list[Any]) -> None:
        item, hook = self._items[index], self._config.hook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _end(self, worker: _Worker) -> int:
        """Wait for the end of a worker that sends no more; return its exit status."""
        self._selector.unregister(worker.pipe)
        os.close(worker.pipe)
        self._workers.remove(worker)
        return os.waitstatus_to_exitcode(os.waitpid(worker.process_id, 0)[1])

    def _replace(self, worker: _Worker, status: int) -> None:
        """Report the test that ended its worker, and run the tests after it."""
        (index,) = _NUMBER.unpack_from(self._running, _NUMBER.size * worker.number)
        item = self._items[index]
        told = f"the process of this test ended with {status}"
        self._report(index, [pytest.TestReport(item.nodeid, item.location, {}, "failed", told, "call")])
        part = next(each for each in self._parts if index in each)
        self._fork(worker.number, part[part.index(index) + 1 :])

    def _work(self, number: int, rest: list[int], sender: "_Sender") -> None:
        """Run tests, in a worker. Fixtures of the session live until the last one: the next test is known before each."""
        indices = self._indices(rest)
        index = next(indices, None)
        while index is not None:
            _NUMBER.pack_into(self._running, _NUMBER.size * number, index)
            following = next(indices, None)
            nextitem = None if following is None else self._items[following]
            self._config.hook.pytest_runtest_protocol(item=self._items[index], nextitem=nextitem)
            sender.end_test(index)
            index = following
        sender.end()

    def _indices(self, rest: list[int]) -> Iterator[int]:
        yield from rest
        while data := os.read(self._left, _NUMBER.size):
            yield from self._parts[_NUMBER.unpack(data)[0]]


class _Sender:
    """The plug-in of a worker: it sends reports to the parent."""

    def __init__(self, config: pytest.Config, pipe: int) -> None:
        self._config, self._pipe = config, pipe
        self._reports: list[tuple[str, dict[str, Any]]] = []
        config.pluginmanager.register(self)

    def pytest_runtest_logreport(self, report: Any) -> None:
        values = vars(report)
        if report.outcome == "passed" and not report.user_properties and "wasxfail" not in values:
            self._reports.append((report.when, {name: values[name] for name in _SENT_OF_A_SUCCESS if name in values}))
        else:
            self._reports.append(("", self._config.hook.pytest_report_to_serializable(config=self._config, report=report)))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        category = warning_message.category.__name__
        _send(
            self._pipe, "warning", str(warning_message.message), category, warning_message.filename, warning_message.lineno, nodeid
        )

    def end_test(self, index: int) -> None:
        _send(self._pipe, "test", index, self._reports)
        self._reports = []

    def end(self) -> None:
        _send(self._pipe, "end")


def _send(pipe: int, *message: object) -> None:
    data = pickle.dumps(message)
    left = memoryview(_NUMBER.pack(len(data)) + data)
    while left:
        left = left[os.write(pipe, left) :]


def _become_worker(config: Any, directory: Path) -> None:
    """Give this process a terminal, captured output and temporary files of its own."""
    manager = config.pluginmanager
    for plugin in (*map(manager.get_plugin, _OF_THE_PARENT), config.stash.get(xml_key, None)):
        if plugin is not None:
            manager.unregister(plugin)
    manager.register(SimpleNamespace(_tw=create_terminal_writer(config)), "terminalreporter")
    capture = manager.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    directory.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = directory
