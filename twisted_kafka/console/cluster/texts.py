"""Numbers and sizes in sentences."""


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
