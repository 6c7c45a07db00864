"""Times of lines."""

import datetime
from functools import cache


@cache
def at(minute: int, second: int = 30) -> str:
    """Return the time of a line, a number of minutes after the beginning of the day."""
    moment = datetime.datetime(2026, 11, 21) + datetime.timedelta(minutes=minute, seconds=second)
    return moment.isoformat(timespec="milliseconds") + "Z"
