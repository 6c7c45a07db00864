"""The templates of the pages (Jinja2). Every text that a template prints passes ``shown`` and is escaped for HTML."""

import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from twisted_kafka.console.live.lag_history import Lags
from twisted_kafka.console.web import charts, shown_text

LIVE_BLOCK: Final = "live"
"""The block of a page that is sent again while somebody looks."""

_PACKAGE: Final = "twisted_kafka.console.web"
_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_DIGEST_CHARACTERS: Final = 12


def page(template: str, values: Mapping[str, Any]) -> bytes:
    """Return a page. Any thread may call it."""
    return _environment().get_template(template).render(values).encode("utf-8", "replace")


def live_part(template: str, values: Mapping[str, Any]) -> str:
    """Return the live block of a page, empty if it has none. Any thread may call it."""
    found = _environment().get_template(template)
    block = found.blocks.get(LIVE_BLOCK)
    return "" if block is None else "".join(block(found.new_context(dict(values))))


def compiled() -> Iterator[str]:
    """Compile the templates, one at each step; yield their names."""
    for each in sorted(path.name for path in (files(_PACKAGE) / "templates").iterdir()):
        _environment().get_template(each)
        yield each


@cache
def _environment() -> Environment:
    """Return what compiles the templates, each once in a process."""
    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        auto_reload=False,
        cache_size=-1,
        finalize=_finalize,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        named=_named,
        pretty=lambda line: json.dumps(line, indent=1, ensure_ascii=False),
        address=lambda host: (host or "").removeprefix("/"),
        ago=_ago,
        rate=shown_text.rate,
        exact=_exact,
        whole=_whole,
        count=shown_text.count,
        size=shown_text.size,
        span=shown_text.span,
        time=_time,
        words=_words,
    )
    # Blocks are rendered alone, too, and then see no imports of their template.
    environment.globals.update(query=query_url, spark=charts.spark, bar=charts.bar, ui_points=_points, static=_static_url)
    environment.globals["ui"] = environment.get_template("ui.html").module
    return environment


def static_file(name: str) -> tuple[bytes, str] | None:
    """Return a file of ``static/`` and its type, None if no file has this name."""
    return _static_files().get(name)


@cache
def _static_files() -> Mapping[str, tuple[bytes, str]]:
    """Return all files by name: a name from the network is only looked up, and neither opened nor kept."""
    found = [(each, _TYPES.get(each.name.rpartition(".")[2])) for each in (files(_PACKAGE) / "static").iterdir()]
    return {each.name: (each.read_bytes(), kind) for each, kind in found if kind is not None}


@cache
def _static_url(name: str) -> str:
    """Return the URL of a static file, which changes with its contents: browsers keep it."""
    found = static_file(name)
    assert found is not None, name
    return f"/static/{name}?v={hashlib.sha256(found[0]).hexdigest()[:_DIGEST_CHARACTERS]}"


def _template(name: str) -> str:
    return (files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    return shown_text.NONE if value is None else shown_text.shown(str(value))


def query_url(path: str, values: Mapping[str, Any], **changes: Any) -> str:
    """Return a path with a query: ``values`` with some changed, or left out if they are empty."""
    merged = {name: value for name, value in {**values, **changes}.items() if value not in (None, "")}
    return f"{path}?{urlencode(merged, errors='replace')}" if merged else path


def _time(ms: int | None, form: str = "") -> Markup | str:
    """Return a time in UTC, ``short`` without the day; the script shows it in the browser's zone."""
    if ms is None or ms < 0:
        return shown_text.NONE
    try:
        then = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    text = then.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    shown = text.partition(" ")[2] if form else text.removesuffix(".000")
    return Markup('<time datetime="{}Z" title="UTC" class="{}">{}</time>').format(text.replace(" ", "T"), form, shown)


def _points(lags: Lags, partition: int | None) -> list[int]:
    """Return a group's lag over time, of one of its partitions or of all."""
    return [(each.lag if partition is None else each.by_partition[partition]) or 0 for each in lags.points]


def _named(line: Mapping[str, Any]) -> str:
    """Return the things that a line of the access log is about."""
    topics = [str(each.get("topic")) for each in line.get("topics") or () if isinstance(each, dict)]
    resources = [str(each.get("name")) for each in line.get("resources") or () if isinstance(each, dict)]
    group = [f"group {line['group_id']}"] if line.get("group_id") else []
    return ", ".join((topics + group + resources)[:5])


def _exact(value: Any) -> Markup:
    """Return a value for a form, unchanged: the browser sends it back."""
    return escape(value)


def _whole(text: str) -> Markup:
    """Return a text of any length, with escapes for what nobody would see."""
    return escape(shown_text.visible(text))


def _ago(ms: int | None, now_ms: int) -> str:
    return shown_text.NONE if ms is None or ms < 0 else f"{shown_text.span(max(0, now_ms - ms))} ago"


def _words(name: str) -> str:
    """Return a name in capitals as words: ``PREPARE_COMMIT`` becomes "prepare commit"."""
    return name.replace("_", " ").lower()
