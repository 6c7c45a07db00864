"""How long a client's regular expression may take: Python's try all ways to match, with the interpreter's lock held."""

import math
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

_FLOAT_BITS: Final = 100


def most_ways(pattern: str, longest: int) -> float:
    """Return how many ways there are at most to match a text of ``longest`` characters, from one place on.

    Python tries some 60 million ways in a second. Raises re.error, OverflowError and RecursionError.
    """
    return _ways(_parser.parse(pattern), longest)


def _ways(parsed: Any, longest: int) -> float:
    """Return how many ways there are at most to match a text of ``longest`` characters: Python's expressions try them all."""
    ways = 1.0
    for kind, given in parsed:
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most = (min(int(each), longest) for each in given[:2])
                inside = _ways(given[2], longest)
                ways *= most - least + 1
                ways *= inside**most if most * math.log2(inside) < _FLOAT_BITS else math.inf
            case "BRANCH":
                ways *= sum(_ways(each, longest) for each in given[1])
            case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
                ways *= _ways(given[-1], longest)
            case "ATOMIC_GROUP":
                ways *= _ways(given, longest)
            case "GROUPREF_EXISTS":
                ways *= sum(_ways(each or (), longest) for each in given[1:])
    return ways
