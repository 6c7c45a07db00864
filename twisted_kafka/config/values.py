"""Values of configuration keys: parsing, validation and formatting."""

import math
import re

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import declare
from twisted_kafka.config.keys.declare import ConfigKey, TopicKey, Value
from twisted_kafka.config.keys.groups import GroupKey
from twisted_kafka.system.numbers import INT64_MAX, decimal

HIDDEN = "[hidden]"
"""The text shown in place of a PASSWORD."""

_DOUBLE = re.compile(r"([+-]?(?:Infinity|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?", re.ASCII)
"""The numbers that Java's Double.valueOf accepts, except NaN, which no setting can use, and hexadecimal ones."""
_BITS = {declare.SHORT: 16, declare.INT: 32, declare.LONG: 64}
_KINDS = {
    declare.BOOLEAN: "true or false",
    declare.SHORT: "a whole number of 16 bits",
    declare.INT: "a whole number of 32 bits",
    declare.LONG: "a whole number of 64 bits",
    declare.DOUBLE: "a number",
}


def parse_value(key: ConfigKey | TopicKey | GroupKey, text: str) -> Value:
    """Return the parsed value of `key`; raise ConfigError when `text` is not of the key's type or violates its rule."""
    value = _parse(key, text.strip() if key.type != declare.PASSWORD else text)
    if key.valid is not None and not key.valid.accepts(value):
        raise _invalid(key, text, key.valid.allowed)
    return value


def value_text(key: ConfigKey | TopicKey | GroupKey, value: Value) -> str | None:
    """Return a value in Kafka's text form (ConfigDef.convertToString), with a password hidden."""
    if value is None:
        return None
    if key.type == declare.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return java_double(value)
    return str(value)


def _parse(key: ConfigKey | TopicKey | GroupKey, text: str) -> Value:
    match key.type:
        case declare.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise _invalid(key, text, _KINDS[key.type])
            return text.lower() == "true"
        case declare.INT | declare.LONG | declare.SHORT:
            return _whole_number(key, text)
        case declare.DOUBLE:
            number = _DOUBLE.fullmatch(text)
            if number is None:
                raise _invalid(key, text, _KINDS[key.type])
            return float(number[1])
        case declare.LIST:
            return tuple(item.strip() for item in text.split(",")) if text else ()
        case _:
            return text


def _whole_number(key: ConfigKey | TopicKey | GroupKey, text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if decimal(digits, INT64_MAX + 1) is None:
        raise _invalid(key, text, _KINDS[key.type])
    number = int(text)
    limit = 1 << (_BITS[key.type] - 1)
    if not -limit <= number < limit:
        raise _invalid(key, text, _KINDS[key.type])
    return number


def _invalid(key: ConfigKey | TopicKey | GroupKey, text: str, allowed: str) -> ConfigError:
    shown = HIDDEN if key.type == declare.PASSWORD else " ".join(text.split())
    return ConfigError(f"Invalid value {shown!r} for {key.name}: must be {allowed}")


def java_double(value: float) -> str:
    """Return a number in the form of Java's Double.toString."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    text = repr(value)
    mantissa, exponent_mark, exponent = text.partition("e")
    if not exponent_mark:
        if abs(value) < 1e7:
            return text
        digits = text.partition(".")[0].lstrip("-")
        mantissa, exponent = f"{digits[0]}.{digits[1:].rstrip('0') or '0'}", str(len(digits) - 1)
        return f"{'-' if value < 0 else ''}{mantissa}E{exponent}"
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
