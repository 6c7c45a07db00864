"""The brokers and their clock over HTTP."""

from collections.abc import Callable
from typing import Any

from twisted_kafka import __version__
from twisted_kafka.system.numbers import INT32_MAX, decimal
from twisted_kafka.testing.broker import Broker
from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import ControlError, bad

_UNITS = ("ms", "seconds", "minutes", "hours", "days")


def describe(call: Call) -> Any:
    """Return the version, the addresses, and the running brokers."""
    call.asked.end()
    return {
        "version": __version__,
        "bootstrap_servers": call.target.bootstrap_servers,
        **({} if call.target.registry_url is None else {"schema_registry_url": call.target.registry_url}),
        "brokers": [
            {"id": broker_id, "bootstrap_servers": broker.bootstrap_servers} for broker_id, broker in call.target.brokers().items()
        ],
    }


def reset(call: Call) -> Any:
    """Return to the state at the start, with the rules of ``--rules``, at the same addresses. Connections are closed."""
    call.given.end()
    call.target.reset()
    return describe(call)


def kill_broker(call: Call) -> Any:
    """End a broker without notice to others."""
    return _changed(call, lambda broker: broker.kill())


def stop_broker(call: Call) -> Any:
    """Stop a broker as an operator does; in a cluster, it first gives up its leaderships."""
    return _changed(call, lambda broker: broker.stop())


def start_broker(call: Call) -> Any:
    """Start a stopped broker, with its address and data."""
    return _changed(call, lambda broker: broker.start(), runs=False)


def freeze_broker(call: Call) -> Any:
    """Let a broker stand still: connections stay open, and nothing is answered."""
    return _changed(call, lambda broker: broker.freeze())


def thaw_broker(call: Call) -> Any:
    """Let a frozen broker go on."""
    return _changed(call, lambda broker: broker.thaw())


def _changed(call: Call, change: Callable[[Broker], object], *, runs: bool = True) -> Any:
    call.given.end()
    broker_id = _broker_id(call)
    with call.target.changed():
        broker = call.target.node(broker_id)
        if broker.is_running is not runs:
            raise ControlError(404, f"broker {broker_id} does not run") if runs else ControlError(409, f"broker {broker_id} runs")
        change(broker)
    return describe(call)


def _broker_id(call: Call) -> int:
    (text,) = call.names
    broker_id = decimal(text, INT32_MAX)
    if broker_id is None:
        raise bad(f"{text[:40]!r} is no broker: expected its id, as in /brokers/2/kill")
    return broker_id


def get_clock(call: Call) -> Any:
    """Return the brokers' wall-clock time, and whether the clock is held."""
    call.asked.end()
    clock = call.target.clock
    return {"now": clock.now.isoformat(timespec="milliseconds"), "now_ms": clock.wall_ms(), "is_held": clock.is_held}


def hold_clock(call: Call) -> Any:
    """Let time stand still until it is released."""
    call.given.end()
    call.target.clock.hold()
    return get_clock(call)


def release_clock(call: Call) -> Any:
    """Let time pass again, from where it stands."""
    call.given.end()
    call.target.clock.release()
    return get_clock(call)


def advance_clock(call: Call) -> Any:
    """Let time pass at once: ``ms``, ``seconds``, ``minutes``, ``hours`` and ``days`` are added up."""
    call.target.clock.advance(**_duration(call))
    return get_clock(call)


def jump_clock(call: Call) -> Any:
    """Set the wall clock forward, or back, by ``ms``, ``seconds``, ``minutes``, ``hours`` and ``days``; deadlines stay."""
    call.target.clock.jump(**_duration(call))
    return get_clock(call)


def _duration(call: Call) -> dict[str, float]:
    given = call.given
    duration = {unit: given.take(unit, float, 0) for unit in _UNITS}
    given.end()
    if not any(duration.values()):
        raise bad(f"no time is given: expected some of {', '.join(_UNITS)}")
    return duration
