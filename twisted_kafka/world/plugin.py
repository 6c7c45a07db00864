"""Worlds as tests of pytest. ``pytest_plugin/`` registers this module, and has its options.

@pytest.mark.kafka_world(seeds=200, brokers=3)
async def test_no_order_is_booked_twice(world):
    world.process(run_the_shop, world.bootstrap_servers)
    await world.run(minutes=30)
    assert booked(world) == ordered(world)
"""

import inspect
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from twisted_kafka.world.seeds import Outcome
    from twisted_kafka.world.world import World

_MARKER: Final = "kafka_world"
_SEEDS: Final = 100
_NONE: Final = "none"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kafka_world(seeds=100, brokers=1, pause_share=0.0, **settings): runs this test, a coroutine function with the parameter "
        "world, once for each seed; settings are Kafka's, with _ for a dot",
    )


class _Marked(NamedTuple):
    seeds: int
    brokers: int
    pause_share: float
    settings: Mapping[str, object]


def _marked(marker: pytest.Mark) -> _Marked:
    named = dict(marker.kwargs)
    if marker.args:
        pytest.fail(f"@pytest.mark.kafka_world({marker.args[0]!r}): expected names, as in seeds=200", pytrace=False)
    seeds, brokers, share = named.pop("seeds", _SEEDS), named.pop("brokers", 1), named.pop("pause_share", 0.0)
    if not isinstance(seeds, int) or seeds < 1:
        pytest.fail(f"@pytest.mark.kafka_world(seeds={seeds!r}): expected a number from 1 on", pytrace=False)
    settings = {name if "." in name else name.replace("_", "."): value for name, value in named.items()}
    return _Marked(seeds, brokers, share, settings)


@pytest.fixture
def world() -> None:
    """Stand for the world of each seed, which the marker makes."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test once for each seed."""
    marker = pyfuncitem.get_closest_marker(_MARKER)
    if marker is None:
        if "world" in pyfuncitem.fixturenames and pyfuncitem.funcargs.get("world", ...) is None:
            pytest.fail("the fixture world needs @pytest.mark.kafka_world(seeds=..., brokers=...)", pytrace=False)
        return None
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or "world" not in pyfuncitem.fixturenames:
        pytest.fail("@pytest.mark.kafka_world is for `async def test_...(world)`", pytrace=False)
    _run_seeds(pyfuncitem, _marked(marker))
    return True


def _run_seeds(item: pytest.Function, marked: _Marked) -> None:
    from twisted_kafka.broker.errors import StartError
    from twisted_kafka.config.errors import ConfigError

    try:
        from twisted_kafka.world.seeds import SeedFailedError, report, run_test, shrink
        from twisted_kafka.world.world import World
    except ImportError as error:
        pytest.fail(str(error), pytrace=False)
    chosen, faults, trace, at_s = _options(item.config)
    others = {name: value for name, value in item.funcargs.items() if name in inspect.signature(item.obj).parameters}

    def test(world: "World") -> Any:
        return item.obj(**{**others, "world": world})

    for seed in range(marked.seeds) if chosen is None else (chosen,):

        def make_world(kept: Collection[int] | None, seed: int = seed) -> World:
            return World(seed, marked.brokers, marked.settings, pause_share=marked.pause_share, only_faults=kept)

        try:
            made = make_world(faults)
        except ValueError as error:
            pytest.fail(f"the world of this test: {error}", pytrace=False)
        outcome = run_test(made, test) if at_s is None else _visit(item.config, made, test, at_s)
        if isinstance(outcome.error, (ConfigError, StartError)):
            pytest.fail(f"the world of this test: {outcome.error}", pytrace=False)
        if outcome.error is not None and faults is None and at_s is None:
            outcome = shrink(make_world, test, outcome)
        if trace is not None and (outcome.error is not None or chosen is not None):
            outcome.world.trace.write(trace)
        if outcome.error is not None:
            raise SeedFailedError(report(outcome, name=item.name)) from outcome.error


def _visit(config: pytest.Config, world: "World", test: Any, at_s: float) -> "Outcome":
    """Run a test, and talk to the user of the terminal at a moment of it."""
    from twisted_kafka.world.moments.copies import Moments
    from twisted_kafka.world.moments.prompt import talk
    from twisted_kafka.world.seeds import run_test

    capture: Any = config.pluginmanager.getplugin("capturemanager")
    config.hook.pytest_enter_pdb(config=config, pdb=None)  # plug-ins that end a test after some time wait for the user
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    moments = Moments(talk)
    try:
        outcome = run_test(world, test, moments)
        moments.visit(at_s)
        return outcome
    finally:
        moments.close()
        if capture is not None:
            capture.resume_global_capture()


def _options(config: pytest.Config) -> tuple[int | None, Collection[int] | None, Path | None, float | None]:
    """Return the seed, the numbers of faults, the file for the trace and the moment that the command line names."""
    seed = config.getoption("--kafka-seed", default=None)
    faults = config.getoption("--kafka-faults", default=None)
    trace = config.getoption("--kafka-trace", default=None)
    kept: Collection[int] | None = None
    if faults is not None:
        try:
            kept = [] if faults == _NONE else [int(each) for each in faults.split(",")]
        except ValueError:
            raise pytest.UsageError(f"--kafka-faults={faults}: expected numbers, as in 0,3, or none") from None
        if seed is None:
            raise pytest.UsageError("--kafka-faults needs --kafka-seed: the numbers are those of its plan")
    at_s: float | None = config.getoption("--kafka-at", default=None)
    if at_s is not None and seed is None:
        raise pytest.UsageError("--kafka-at needs --kafka-seed: each world has moments of its own")
    if at_s is not None and hasattr(config, "workerinput"):
        raise pytest.UsageError("--kafka-at needs a terminal, which workers of pytest-xdist do not have: add -n 0")
    return seed, kept, None if trace is None else Path(trace), at_s
