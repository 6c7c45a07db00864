"""Regular expressions and replacements in settings, which are written as Java has them."""

import re
from typing import Final

_NAMED_GROUP: Final = re.compile(r"(?<!\\)\(\?<([A-Za-z][A-Za-z0-9]*)>")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)|\$\{([A-Za-z][A-Za-z0-9]*)\}", re.DOTALL)


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, whose classes such as ``\\w`` are of ASCII; raises ``re.error``."""
    return re.compile(_NAMED_GROUP.sub(r"(?P<\1>", pattern), re.ASCII)


def filled(replacement: str, match: re.Match[str]) -> str:
    """Insert the groups as Java does: ``$12`` means the longest group number that exists, followed by the other digits.

    A reference to a group that does not exist is kept as it is, where Java fails.
    """

    def fill(reference: re.Match[str]) -> str:
        escaped, number, name = reference.groups()
        if escaped is not None:
            return str(escaped)
        if name is not None:
            return match[name] or "" if name in match.re.groupindex else str(reference[0])
        for size in range(len(number), 0, -1):
            if int(number[:size]) <= match.re.groups:
                return (match[int(number[:size])] or "") + str(number[size:])
        return str(reference[0])

    return _REFERENCE.sub(fill, replacement)


def ensure_replacement(replacement: str, pattern: re.Pattern[str]) -> None:
    """Raise ValueError if Java could not insert the groups of a match: one does not exist, or a ``$`` stands for none."""
    rest = _REFERENCE.sub("", replacement)
    if "$" in rest or "\\" in rest:
        raise ValueError("a $ that refers to no group, or a backslash at the end")
    for _, number, name in _REFERENCE.findall(replacement):
        if (number and int(number[0]) > pattern.groups) or (name and name not in pattern.groupindex):
            raise ValueError(f"there is no group {name or number[0]}")
