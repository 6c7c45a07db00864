"""Numbers and sizes in sentences, and the names of APIs in searches."""

from typing import Final

from twisted_kafka.protocol.api import ApiKey

_APIS: Final = frozenset(each.title.casefold() for each in ApiKey)


def finds_api(searched: str, api: str) -> bool:
    """Return whether a search finds an API. The whole name of one finds it alone: ``Produce`` does not find ``InitProducerId``.

    Any other text finds all whose name has it.
    """
    wanted = searched.strip().casefold()
    return wanted == api.casefold() if wanted in _APIS else wanted in api.casefold()


def size_text(size_bytes: int) -> str:
    """Return a size with a unit, 1.5 MB for example."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def counted(count: int, what: str) -> str:
    """Return ``1 topic`` or ``3 topics``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
