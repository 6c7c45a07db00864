"""Keep pyarrow from importing pandas: it would with the first array of numpy's, for half a second in each process, to no use here.

To import this module is enough. pyarrow looks but once in a process whether pandas is there; it is hidden while it looks. What
imports pandas itself finds it as ever.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa


class _Hidden:
    """A finder that knows of no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def _look() -> None:
    sys.meta_path.insert(0, _Hidden)
    try:
        pa.array(np.zeros(1)).to_numpy()  # taking an array and giving one have a look of their own
    finally:
        sys.meta_path.remove(_Hidden)


if "pandas" not in sys.modules:
    _look()
