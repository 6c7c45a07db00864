"""``datetime.datetime`` and ``datetime.date`` with the time of a world."""

import datetime
import time
from typing import Any

from typing_extensions import override

REAL_DATETIME = datetime.datetime
REAL_DATE = datetime.date


class _StandsFor(type):
    """The type of a class whose instances are those of ``real``."""

    real: type

    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    @override
    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.real)

    @override
    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.real

    @override
    def __hash__(cls) -> int:
        return hash(cls.real)


class WorldDatetime(REAL_DATETIME, metaclass=_StandsFor):
    """Makes real datetimes; the present is the calling thread's ``time.time``."""

    real = REAL_DATETIME

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a real one."""
        return REAL_DATETIME(*args, **kwargs)

    @classmethod
    @override
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return REAL_DATETIME.fromtimestamp(time.time(), tz)

    @classmethod
    @override
    def today(cls) -> Any:
        return REAL_DATETIME.fromtimestamp(time.time())

    @classmethod
    @override
    def utcnow(cls) -> Any:
        return REAL_DATETIME.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


class WorldDate(REAL_DATE, metaclass=_StandsFor):
    """Makes real dates; today is the calling thread's."""

    real = REAL_DATE

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a real one."""
        return REAL_DATE(*args, **kwargs)

    @classmethod
    @override
    def today(cls) -> Any:
        return REAL_DATE.fromtimestamp(time.time())
