"""Charts as SVG, drawn here: pages need no library for them, and show them without scripts. Colours come from the style sheet."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

WIDTH: Final = 240
HEIGHT: Final = 48
_MARGIN: Final = 2


def spark(points: Sequence[float], label: str, *, highest: float | None = None) -> Markup:
    """Return a line through the points, from left to right, between 0 and ``highest`` (by default their maximum).

    ``label`` is what a screen reader says.
    """
    top = max(highest or 0.0, *points, 1e-9) if points else 1.0
    step = (WIDTH - 2 * _MARGIN) / max(1, len(points) - 1)
    room = HEIGHT - 2 * _MARGIN
    places = [f"{_MARGIN + step * at:.1f},{_MARGIN + room - room * max(0.0, point) / top:.1f}" for at, point in enumerate(points)]
    line = Markup('<polyline points="{}"/>').format(" ".join(places)) if len(places) > 1 else Markup("")
    return Markup(
        '<svg class="spark" viewBox="0 0 {width} {height}" role="img" aria-label="{label}" preserveAspectRatio="none">{line}</svg>'
    ).format(width=WIDTH, height=HEIGHT, label=label, line=line)


def bar(part: float, whole: float, label: str) -> Markup:
    """Return a bar that is filled as far as ``part`` goes in ``whole``."""
    share = 0.0 if whole <= 0 else min(1.0, max(0.0, part / whole))
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" role="img" aria-label="{label}" preserveAspectRatio="none">'
        '<rect class="rest" width="100" height="8"/><rect class="part" width="{width:.1f}" height="8"/></svg>'
    ).format(label=label, width=share * 100)
