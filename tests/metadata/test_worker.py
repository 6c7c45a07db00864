import threading

from twisted_kafka.metadata.worker import SerialWorker


def test_a_worker_that_pauses_ends_when_it_is_closed() -> None:
    worker = SerialWorker("pausing")
    began = threading.Event()
    done: list[str] = []

    def pause() -> None:
        began.set()
        worker.pause(3600)
        done.append("paused")

    worker.submit(pause)
    worker.submit(lambda: done.append("after"))
    assert began.wait(30)
    assert done == []
    assert worker.close(30)
    assert done == ["paused", "after"]


def test_a_worker_without_a_thread_does_not_wait() -> None:
    worker = SerialWorker("pumped", threaded=False)
    worker.submit(lambda: worker.pause(3600))
    assert worker.pump() == 1
