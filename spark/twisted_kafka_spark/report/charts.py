"""Small SVG charts without scripts or external resources. Colours are CSS classes, so the page's style handles dark mode."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from twisted_kafka_spark.report.words import TIMES, Units

COLOURS = 8
"""The number of classes c0 to c7, which colour series; further series share the last."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 960, 232, 64, 8, 24, 20
_PLOT = _HEIGHT - _BOTTOM
_ROWS, _ROW = ("critical", "warning", "notice"), 6
"""The rows of marks above a chart, and the height of each."""
_MOSTLY = 0.6
"""The share of a chart from which a mark is a thin line."""
_SPIKE, _SPIKES = 4.0, 0.02
"""A chart's scale ends at `_SPIKE` times what all but this share of its columns have at most, if that is less than the most."""
_MOST_LABELS = 7
"""The most labels of a time axis."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_ROUND_S = (
    *(_MINUTE_S * count for count in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_S * count for count in (1, 2, 3, 4, 6, 12)),
    *(_DAY_S * count for count in (1, 2, 7, 14, 28, 56, 112)),
)
"""The possible intervals between two labels of a time axis."""


class Mark(NamedTuple):
    """A span of ticks that is marked above a chart: the indexes of its first and last tick, and its description."""

    first: int
    last: int
    title: str
    severity: str = "critical"


def colour(at: int) -> str:
    """Return the class of the series with this index."""
    return f"c{min(at, COLOURS - 1)}"


def legend(names: Sequence[str], colours: Sequence[int] = ()) -> str:
    """Return the legend of a chart, whose series have these colours, or the first ones."""
    each = zip(names, colours or range(len(names)), strict=True)
    keys = (
        f'<span><i class="{colour(at)} k{min(at, COLOURS - 1)}" aria-hidden="true"></i>{escape(name)}</span>' for name, at in each
    )
    return f'<p class="legend">{"".join(keys)}</p>'


def short(value: float) -> str:
    """Return a number with at most three digits and a suffix: 1.2k, 34M."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def quantile_lines(
    ticks: Sequence[str], series: Mapping[str, Sequence[float | None]], title: str, marks: Iterable[Mark] = ()
) -> str:
    """Return a chart of times in microseconds with a line for each series; where it has no value, the line has a gap."""
    if not ticks or not series:
        return ""
    known = [[value or 0.0 for value in values] for values in series.values()]
    top = scale([max(values) for values in zip(*known, strict=True)])
    step = (_WIDTH - _LEFT - _RIGHT) / len(ticks)
    shapes = list(_grid(top, TIMES))
    for at, values in enumerate(series.values()):
        shapes.append(f'<path class="line s{min(at, COLOURS - 1)}" d="{_line(values, top, step)}"/>')
    shapes += _cuts([max(values) for values in zip(*known, strict=True)], top, step)
    shapes += [_marked(mark, step) for mark in marks]
    for at, tick in enumerate(ticks):
        parts = ", ".join(f"{name} {TIMES.text(values[at])}" for name, values in series.items() if values[at] is not None)
        shapes += _tip(at, step, tick, parts)
    return _svg(title, [*shapes, *_tick_labels(ticks, step)])


def _line(values: Sequence[float | None], top: float, step: float) -> str:
    parts, is_drawn = [], False
    for at, value in enumerate(values):
        if value is not None:
            y = _PLOT - min(value, top) / top * (_PLOT - _TOP)
            parts.append(f"{'V' if is_drawn else f'M{_LEFT + at * step:.1f} '}{y:.1f}h{step:.2f}")
        is_drawn = value is not None
    return "".join(parts)


def stacked_steps(
    ticks: Sequence[str],
    series: Mapping[str, Sequence[float]],
    title: str,
    units: Units | None = None,
    marks: Iterable[Mark] = (),
) -> str:
    """Return a chart with a column for each tick, in which the series are stacked; each series has one value per tick.

    A few columns that are far higher than all others are cut, and marked: they would flatten the others.
    """
    if not ticks or not series:
        return ""
    totals = [sum(values) for values in zip(*series.values(), strict=True)]
    top, form = scale(totals), units.text if units else short
    step = (_WIDTH - _LEFT - _RIGHT) / len(ticks)
    lower = [0.0] * len(ticks)
    shapes = list(_grid(top, units))
    for at, values in enumerate(series.values()):
        upper = [base + value for base, value in zip(lower, values, strict=True)]
        shown = [min(value, top) for value in lower], [min(value, top) for value in upper]
        shapes.append(f'<path class="{colour(at)}" d="{_steps(*shown, top, step)}"/>')
        lower = upper
    shapes += _cuts(totals, top, step)
    shapes += [_marked(mark, step) for mark in marks]
    for at, tick in enumerate(ticks):
        parts = ", ".join(f"{name} {form(values[at])}" for name, values in series.items() if values[at])
        shapes += _tip(at, step, tick, parts)
    return _svg(title, [*shapes, *_tick_labels(ticks, step)])


def _tip(at: int, step: float, tick: str, text: str) -> list[str]:
    """Return the tooltip with the values of a tick, if it has any."""
    place = f'x="{_LEFT + at * step:.1f}" y="{_TOP}" width="{step:.1f}" height="{_PLOT - _TOP}"'
    return [f'<rect class="tip" {place}><title>{escape(f"{tick}: {text}")}</title></rect>'] if text else []


def _cuts(totals: Sequence[float], top: float, step: float) -> list[str]:
    """Return a mark at the upper end of each column that is cut."""
    return [
        f'<path class="cut" d="M{_LEFT + (at + 0.5) * step - 4:.1f} {_TOP + 5}l4 -5l4 5z"/>'
        for at, total in enumerate(totals)
        if total > top
    ]


def scale(totals: Sequence[float]) -> float:
    """Return the highest value that a chart of these columns shows."""
    ordered = sorted(totals)
    most, usual = ordered[-1], ordered[int((len(ordered) - 1) * (1 - _SPIKES))]
    return (_SPIKE * usual if 0 < _SPIKE * usual < most else most) or 1


def _marked(mark: Mark, step: float) -> str:
    """Return the mark in the row of its severity; a line if it covers most of the chart."""
    x, width = _LEFT + mark.first * step, max((mark.last - mark.first + 1) * step, 3)
    y = _ROW * max(_ROWS.index(mark.severity), 0) if mark.severity in _ROWS else 0
    height = 1.5 if width > _MOSTLY * (_WIDTH - _LEFT - _RIGHT) else _ROW - 1
    where = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}"'
    return f'<rect class="mark {escape(mark.severity)}" {where}><title>{escape(mark.title)}</title></rect>'


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
    label = ", ".join(f"{name} {value / total:.0%}" for name, value in parts.items() if total and value) or "nothing"
    opening = f'<svg class="share" viewBox="0 0 300 12" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
    return f"{opening}{''.join(shapes)}</svg>"


def _svg(title: str, shapes: Iterable[str]) -> str:
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(shapes)}</svg>'
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(title)}">{svg}</div>'


def _grid(top: float, units: Units | None) -> Iterable[str]:
    """Yield the lines of the grid and their labels, in one unit."""
    name, each = units.of(top) if units else ("", 1.0)
    for share in (0.0, 0.5, 1.0):
        y = _PLOT - share * (_PLOT - _TOP)
        label = f"{top * share / each:,.3g} {name}" if units else short(top * share)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


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


def _tick_labels(ticks: Sequence[str], step: float) -> Iterable[str]:
    """Yield labels of the time axis at round times: times of day, with the date where it is a new one, or dates alone."""
    shown = _round(ticks)
    is_long = ticks[0][:10] != ticks[-1][:10]
    form = "%-d %b" if ticks[0][:4] == ticks[-1][:4] else "%-d %b %Y"
    has_times = not is_long or any(ticks[at][-5:] != "00:00" for at in shown)
    before = ""
    for at in shown:
        date, time = ticks[at][:10], ticks[at][-5:]
        day = datetime.date.fromisoformat(date).strftime(form)
        label = day if not has_times else time if not is_long or date == before else f"{day} {time}"
        before = date
        zoned = f' data-at="{date}T{time}Z"' if label == time else ""
        anchor = "start" if at == 0 else "end" if at == len(ticks) - 1 else "middle"
        yield f'<text x="{_LEFT + (at + 0.5) * step:.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}"{zoned}>{escape(label)}</text>'


def _round(ticks: Sequence[str]) -> list[int]:
    """Return the indexes of the ticks to label: multiples of the shortest round time of which there are few, else evenly spread."""
    seconds = [int(datetime.datetime.fromisoformat(tick).replace(tzinfo=datetime.UTC).timestamp()) for tick in ticks]
    for each_s in _ROUND_S:
        found = [at for at, second in enumerate(seconds) if second % each_s == 0]
        if len(found) <= _MOST_LABELS:
            break
    return found if 0 < len(found) <= _MOST_LABELS else [len(ticks) * at // _MOST_LABELS for at in range(_MOST_LABELS)]
