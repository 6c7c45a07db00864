"""Classes that settings name: what is of no use refuses in one line that names the key."""

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
        (f"{HERE}.NeedsAnArgument.__name__", "not callable"),
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


def test_an_instance_is_made_and_configured() -> None:
    made = instance_of(f"{HERE}.Configured", "the.key", ("configure",), lambda made: made.configure())
    assert made.is_configured
    assert not hasattr(instance_of(f"{HERE}.Configured", "the.key", ("configure",)), "is_configured")
