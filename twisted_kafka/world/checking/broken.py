"""A promise of Kafka that was not kept."""

from typing import NamedTuple

from typing_extensions import override


class Broken(NamedTuple):
    """One record, partition, offset or assignment that is not as promised."""

    promise: str
    """``lost``, ``changed``, ``duplicate``, ``reordered``, ``half``, ``shared``, ``forgotten``,
    ``redelivered`` or ``backwards``."""
    where: str
    """What, where, and whose."""

    @override
    def __str__(self) -> str:
        return f"{self.promise}: {self.where}"
