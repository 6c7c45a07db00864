"""The exception for invalid configurations."""


class ConfigError(ValueError):
    """A setting is invalid; the message is one line with the key, the value and the allowed values."""
