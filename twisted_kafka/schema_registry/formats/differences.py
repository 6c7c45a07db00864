"""A difference between two schemas that prevents readers from reading data."""

from typing import NamedTuple

from typing_extensions import override


class Difference(NamedTuple):
    """Its kind, by Confluent's name, and its place."""

    kind: str
    path: str

    @override
    def __str__(self) -> str:
        words = self.kind.replace("_", " ").lower()
        return f'{{errorType:"{self.kind}", description:"{words} at path \'{self.path}\'"}}'
