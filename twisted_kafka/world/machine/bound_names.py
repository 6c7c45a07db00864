"""Finds the modules that have taken a function of time or chance out of its module, as in ``from time import time``.

A world replaces the function in its own module. A module that has bound the name before keeps the real one, and with it the real
time, unless the name is replaced there, too.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

Replace = Callable[[Any, str, Any], object]

_SELF: Final = __name__.rpartition(".")[0]
_scanned: dict[str, object] = {}
"""The modules that were searched, by name: a process with many worlds searches only new ones."""
_found: list[tuple[Any, str, int]] = []
"""Each module with a name and the id of its value, which lives as long as the process."""


def replace_bound_names(replacements: Mapping[int, Any], wanted: Mapping[int, Any], replace: Replace) -> None:
    """Call ``replace(module, name, value)`` for each name of a module whose value has an id of ``replacements``.

    ``wanted`` has the real values by the same ids, the same in each world of a process.
    """
    for name, module in sorted(sys.modules.items()):
        if _scanned.get(name) is not module and module is not None:
            _scanned[name] = module
            if name.startswith(_SELF):
                continue
            values = getattr(module, "__dict__", {})
            _found.extend((module, key, id(value)) for key, value in list(values.items()) if wanted.get(id(value)) is value)
    for module, name, number in _found:
        if number in replacements:
            replace(module, name, replacements[number])
