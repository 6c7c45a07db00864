"""Classes that settings name: what is of no use refuses in one line that names the key."""

import abc

import pytest

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.python_class import instance_of

HERE = __name__


class Configured:
    def configure(self) -> str:
        self.is_configured = True
        return "ignored"


class NeedsAnArgument:
    def __init__(self, argument: int) -> None: ...


class Abstract(abc.ABC):
    @abc.abstractmethod
    def configure(self) -> None: ...


class Refuses(Configured):
    def configure(self) -> str:
        raise ValueError("not so")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such.module.Class", "does not name an object"),
        (f"{HERE}.NoSuchClass", "NoSuchClass"),
        ("Class", "Class"),
        (f"{HERE}.NeedsAnArgument", "missing 1 required positional argument: 'argument'"),
        (f"{HERE}.NeedsAnArgument.__name__", "it is not a class"),
        ("os.abort", "it is not a class"),
        ("sys.exit", "it is not a class"),
        (f"{HERE}.Abstract", "it is abstract"),
        (f"{HERE}.Refuses", "not so"),
    ],
)
def test_a_class_of_no_use_is_refused_with_its_key(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        instance_of(name, "the.key", (), lambda made: made.configure())
    text = str(error.value)
    assert text.startswith(f"Invalid value {name!r} for the.key: must be a class that can be instantiated (")
    assert reason in text
    assert "\n" not in text


def test_methods_that_are_missing_are_named() -> None:
    with pytest.raises(ConfigError, match=r"\(it has no method build, close\)$"):
        instance_of(f"{HERE}.Configured", "the.key", ("build", "configure", "close"))


def test_nothing_is_called_that_lacks_the_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Configured, "__init__", lambda self: pytest.fail("it was called"))
    with pytest.raises(ConfigError, match="no method build"):
        instance_of(f"{HERE}.Configured", "the.key", ("build",))


def test_an_instance_is_made_and_configured() -> None:
    made = instance_of(f"{HERE}.Configured", "the.key", ("configure",), lambda made: made.configure())
    assert made.is_configured
    assert not hasattr(instance_of(f"{HERE}.Configured", "the.key", ("configure",)), "is_configured")
