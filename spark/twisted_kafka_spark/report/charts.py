"""Small SVG charts without scripts or external resources. Colours are CSS classes, so the page's style handles dark mode."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

COLOURS = 8
"""The number of classes c0 to c7, which colour series; further series share the last."""
LEVELS = 5
"""The number of classes h1 to h5, which colour the cells of a heat map."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 960, 220, 64, 8, 24, 8
_PLOT = _HEIGHT - _BOTTOM
_SPIKE, _SPIKES = 4.0, 0.02
"""A chart's scale ends at `_SPIKE` times what all but this share of its columns have at most, if that is less than the most."""
_LABELS = 6
"""Intervals between labels of the time axis."""


class Mark(NamedTuple):
    """A span of ticks that is marked above a chart: the indexes of its first and last tick, and what it is."""

    first: int
    last: int
    title: str


def colour(at: int) -> str:
    """Return the class of the series with this index."""
    return f"c{min(at, COLOURS - 1)}"


def legend(names: Sequence[str]) -> str:
    """Return the legend of a chart."""
    keys = (f'<span><i class="{colour(at)}"></i>{escape(name)}</span>' for at, name in enumerate(names))
    return f'<p class="legend" aria-hidden="true">{"".join(keys)}</p>'


def short(value: float) -> str:
    """Return a number with at most three digits and a suffix: 1.2k, 34M."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def stacked_steps(
    ticks: Sequence[str],
    series: Mapping[str, Sequence[float]],
    title: str,
    form: Callable[[float], str] = short,
    marks: Iterable[Mark] = (),
) -> str:
    """Return a chart with a column for each tick, in which the series are stacked; each series has one value per tick.

    A few columns that are far higher than all others are cut, and marked: they would flatten the others. `form` formats values.
    """
    if not ticks or not series:
        return ""
    totals = [sum(values) for values in zip(*series.values(), strict=True)]
    top = scale(totals)
    step = (_WIDTH - _LEFT - _RIGHT) / len(ticks)
    lower = [0.0] * len(ticks)
    shapes = list(_grid(top, form))
    for at, values in enumerate(series.values()):
        upper = [base + value for base, value in zip(lower, values, strict=True)]
        shown = [min(value, top) for value in lower], [min(value, top) for value in upper]
        shapes.append(f'<path class="{colour(at)}" d="{_steps(*shown, top, step)}"/>')
        lower = upper
    shapes += [
        f'<path class="cut" d="M{_LEFT + (at + 0.5) * step - 4:.1f} {_TOP + 5}l4 -5l4 5z"/>'
        for at, total in enumerate(totals)
        if total > top
    ]
    shapes += [_marked(mark, step) for mark in marks]
    for at, tick in enumerate(ticks):
        parts = ", ".join(f"{name} {form(values[at])}" for name, values in series.items() if values[at])
        shapes.append(
            f'<rect class="tip" x="{_LEFT + at * step:.1f}" y="{_TOP}" width="{step:.1f}" height="{_PLOT - _TOP}">'
            f"<title>{escape(tick)}: {escape(parts or 'none')}</title></rect>"
        )
    return _svg(title, [*shapes, *_tick_labels(ticks, step)])


def scale(totals: Sequence[float]) -> float:
    """Return the highest value that a chart of these columns shows."""
    ordered = sorted(totals)
    most, usual = ordered[-1], ordered[int((len(ordered) - 1) * (1 - _SPIKES))]
    return (_SPIKE * usual if 0 < _SPIKE * usual < most else most) or 1


def _marked(mark: Mark, step: float) -> str:
    x, width = _LEFT + mark.first * step, max((mark.last - mark.first + 1) * step, 3)
    return f'<rect class="mark" x="{x:.1f}" y="0" width="{width:.1f}" height="5"><title>{escape(mark.title)}</title></rect>'


def heat_map(ticks: Sequence[str], rows: Sequence[str], cells: Mapping[tuple[int, int], float], title: str) -> str:
    """Return a heat map of cells by (tick, row), with the first row at the bottom, shaded by their share of the tick's total."""
    if not cells:
        return ""
    step, height = (_WIDTH - _LEFT - _RIGHT) / len(ticks), (_PLOT - _TOP) / len(rows)
    wholes: dict[int, float] = {}
    for (tick, _), value in cells.items():
        wholes[tick] = wholes.get(tick, 0) + value
    paths: dict[int, list[str]] = {}
    for level, row, first, last in _runs(cells, wholes, len(rows)):
        y = _PLOT - (row + 1) * height
        paths.setdefault(level, []).append(
            f"M{_LEFT + first * step:.0f} {y:.1f}h{(last - first + 1) * step:.1f}v{height:.1f}h-{(last - first + 1) * step:.1f}z"
        )
    shapes = [f'<path class="h{level}" d="{"".join(found)}"/>' for level, found in sorted(paths.items())]
    every = max(1, len(rows) // 6)
    shapes += [
        f'<text x="{_LEFT - 6}" y="{_PLOT - row * height - 2:.1f}" text-anchor="end">{escape(rows[row])}</text>'
        for row in range(0, len(rows), every)
    ]
    return _svg(title, [*shapes, *_tick_labels(ticks, step)])


def share_bar(parts: Mapping[str, float], unit: str) -> str:
    """Return a horizontal bar that is divided in proportion to the parts."""
    total = sum(parts.values())
    x, shapes = 0.0, []
    for at, (name, value) in enumerate(parts.items()):
        width = 300 * value / total if total else 0.0
        if width:
            tip = f"{name}: {value:,.0f} {unit} ({value / total:.0%})"
            shapes.append(
                f'<rect class="{colour(at)}" x="{x:.1f}" width="{width:.1f}" height="12"><title>{escape(tip)}</title></rect>'
            )
        x += width
    label = ", ".join(f"{name} {value / total:.0%}" for name, value in parts.items() if total and value)
    opening = f'<svg class="share" viewBox="0 0 300 12" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
    return f"{opening}{''.join(shapes)}</svg>"


def _svg(title: str, shapes: Iterable[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(shapes)}</svg>'


def _grid(top: float, form: Callable[[float], str]) -> Iterable[str]:
    for share in (0.0, 0.5, 1.0):
        y = _PLOT - share * (_PLOT - _TOP)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{form(top * share)}</text>'


def _steps(lower: Sequence[float], upper: Sequence[float], top: float, step: float) -> str:
    """Return the outline of a series, along its upper edge and back along its lower edge; gaps where it has no value."""

    def y(value: float) -> str:
        return f"{_PLOT - value / top * (_PLOT - _TOP):.1f}"

    runs: list[str] = []
    for first, last in _filled(lower, upper):
        there = "".join(f"V{y(upper[at])}h{step:.2f}" for at in range(first, last + 1))
        back = "".join(f"V{y(lower[at])}h-{step:.2f}" for at in range(last, first - 1, -1))
        runs.append(f"M{_LEFT + first * step:.1f} {y(lower[first])}{there}{back}z")
    return "".join(runs)


def _filled(lower: Sequence[float], upper: Sequence[float]) -> Iterable[tuple[int, int]]:
    start = None
    for at, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if high > low and start is None:
            start = at
        elif high <= low and start is not None:
            yield start, at - 1
            start = None
    if start is not None:
        yield start, len(lower) - 1


def _runs(cells: Mapping[tuple[int, int], float], wholes: Mapping[int, float], rows: int) -> Iterable[tuple[int, int, int, int]]:
    """Yield runs of cells of the same shade in a row: level, row, first and last tick."""
    for row in range(rows):
        run: tuple[int, int, int] | None = None
        for tick in sorted(wholes):
            value = cells.get((tick, row), 0)
            level = 0 if not value else 1 + min(LEVELS - 1, int(value / wholes[tick] * 2 * LEVELS))
            if run and (level != run[0] or tick != run[2] + 1):
                yield run[0], row, run[1], run[2]
                run = None
            if level:
                run = (level, run[1] if run else tick, tick)
        if run:
            yield run[0], row, run[1], run[2]


def _tick_labels(ticks: Sequence[str], step: float) -> Iterable[str]:
    """Yield labels of the time axis: times of day, with the date where it is a new one, or dates alone if no tick is shorter."""
    count = min(_LABELS, len(ticks) - 1)
    shown = sorted({round(at * (len(ticks) - 1) / count) for at in range(count + 1)}) if count else [0]
    has_times = any(tick[-5:] != "00:00" for tick in ticks)
    is_long = ticks[0][:10] != ticks[-1][:10]
    before = ""
    for at in shown:
        date, time = ticks[at][:10], ticks[at][-5:]
        label = _day(date) if not has_times else time if not is_long or date == before else f"{_day(date)} {time}"
        before = date
        anchor = "start" if at == 0 else "end" if at == len(ticks) - 1 else "middle"
        yield f'<text x="{_LEFT + (at + 0.5) * step:.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{escape(label)}</text>'


def _day(date: str) -> str:
    """Return a date as on an axis: 21 Nov."""
    try:
        return f"{datetime.date.fromisoformat(date):%-d %b}"
    except ValueError:
        return date
