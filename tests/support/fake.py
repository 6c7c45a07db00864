"""The base of fakes."""

from typing import Any

Fake: Any = object
"""A subclass may stand for an object of any class: mypy does not compare them."""
