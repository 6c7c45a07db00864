"""Keep pyarrow from importing pandas with the first numpy array, which takes half a second per process and is not needed here.

Importing this module is sufficient. pyarrow checks only once per process whether pandas is available; pandas is hidden during the
check. Other imports of pandas are not affected.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa


class _Hidden:
    """A finder that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def _check_without_pandas() -> None:
    sys.meta_path.insert(0, _Hidden)
    try:
        pa.array(np.zeros(1)).to_numpy()  # both conversions have a check of their own
    finally:
        sys.meta_path.remove(_Hidden)


if "pandas" not in sys.modules:
    _check_without_pandas()
