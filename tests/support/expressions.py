"""What tests of subscriptions by regular expression require."""

import importlib.util

import pytest

requires_expressions = pytest.mark.skipif(
    importlib.util.find_spec("re2") is None, reason="needs google-re2, which has no wheel for PyPy"
)
