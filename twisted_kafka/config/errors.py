"""The one error of the configuration."""


class ConfigError(ValueError):
    """A setting that the broker cannot start with; its text is one line naming the key, the value and what is allowed."""
