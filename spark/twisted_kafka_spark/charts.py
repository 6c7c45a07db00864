"""Small SVG charts, as text: no script and nothing from outside the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = (
    "#2f6f9f",
    "#d98032",
    "#4f9d69",
    "#b5485d",
    "#7b6cb0",
    "#8a7f5c",
    "#4aa5ad",
    "#c26fa8",
    "#6d7a86",
    "#a3a846",
    "#1b3a57",
    "#7a4a12",
    "#2a5e3c",
    "#6e2435",
    "#443a70",
    "#1f6b73",
)
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 960, 220, 64, 24


def _bar(x: float, y: float, width: float, height: float, colour: str, told: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{colour}"><title>{escape(told)}</title></rect>'


def legend(names: Sequence[str]) -> str:
    """Return the key to a chart's colours."""
    keys = (f'<span><i style="background:{COLOURS[at % len(COLOURS)]}"></i>{escape(name)}</span>' for at, name in enumerate(names))
    return f'<p class="legend">{"".join(keys)}</p>'


def stacked_columns(ticks: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Return a chart of one stacked column per tick; each series has one value per tick."""
    totals = [sum(values) for values in zip(*series.values(), strict=True)] if series else []
    top = max(totals, default=0) or 1
    step = (_WIDTH - _LEFT) / max(1, len(ticks))
    plot = _HEIGHT - _BOTTOM
    shapes = [
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{plot * (1 - share):.1f}" y2="{plot * (1 - share):.1f}" class="grid"/>'
        f'<text x="{_LEFT - 6}" y="{plot * (1 - share) + 10:.1f}" text-anchor="end">{top * share:,.0f}</text>'
        for share in (0.0, 0.5, 1.0)
    ]
    for at, tick in enumerate(ticks):
        bottom = float(plot)
        for number, (name, values) in enumerate(series.items()):
            height = values[at] / top * plot
            if height:
                bottom -= height
                told = f"{tick} {name}: {values[at]:,.0f}"
                shapes.append(_bar(_LEFT + at * step, bottom, max(0.5, step * 0.92), height, COLOURS[number % len(COLOURS)], told))
    labelled = sorted({0, len(ticks) // 2, len(ticks) - 1}) if ticks else []
    for at in labelled:
        anchor = "start" if at == 0 else "end" if at == len(ticks) - 1 else "middle"
        shapes.append(
            f'<text x="{_LEFT + (at + 0.5) * step:.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{escape(ticks[at])}</text>'
        )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(shapes)}</svg>'


def share_bar(parts: Mapping[str, float]) -> str:
    """Return one horizontal bar divided in proportion to the parts."""
    total = sum(parts.values())
    x, shapes = 0.0, []
    for at, (name, value) in enumerate(parts.items()):
        width = 300 * value / total if total else 0.0
        if width:
            shapes.append(_bar(x, 0, width, 12, COLOURS[at % len(COLOURS)], f"{name}: {value:,.0f} us ({value / total:.0%})"))
        x += width
    return f'<svg class="share" viewBox="0 0 300 12" preserveAspectRatio="none" role="img">{"".join(shapes)}</svg>'
