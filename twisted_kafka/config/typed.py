"""A mapping from keys to parsed values, with an accessor for each type."""

from twisted_kafka.config.keys.declare import Value


class TypedValues:
    """Parsed values by key; each accessor asserts that the value has its type."""

    def __init__(self, values: dict[str, Value]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def double(self, key: str) -> float:
        """Return the value of a DOUBLE key."""
        value = self._values[key]
        assert isinstance(value, (float, int)), key
        return float(value)

    def boolean(self, key: str) -> bool:
        """Return the value of a BOOLEAN key."""
        value = self._values[key]
        assert isinstance(value, bool), key
        return value

    def string(self, key: str) -> str:
        """Return the value of a STRING, CLASS or PASSWORD key that has one."""
        value = self._values[key]
        assert isinstance(value, str), key
        return value

    def optional_string(self, key: str) -> str | None:
        """Return the value of a STRING, CLASS or PASSWORD key, None when it has none."""
        value = self._values[key]
        assert value is None or isinstance(value, str), key
        return value

    def list(self, key: str) -> tuple[str, ...]:
        """Return the value of a LIST key."""
        value = self._values[key]
        assert isinstance(value, tuple), key
        return value

    def long(self, key: str) -> int:
        """Return the value of a LONG, INT or SHORT key."""
        value = self._values[key]
        assert isinstance(value, int), key
        return value

    def int(self, key: str) -> int:
        """Return the value of an INT, LONG or SHORT key."""
        return self.long(key)
