"""Names of subjects, each of them in a context: ``:.dev:orders-value`` is ``orders-value`` in the context ``.dev``."""

from typing import Final

DEFAULT_CONTEXT: Final = "."
_PREFIX: Final = ":."


def context_of(subject: str | None) -> str:
    """Return a subject's context. Each context numbers its schemas itself."""
    if subject is None or not subject.startswith(_PREFIX):
        return DEFAULT_CONTEXT
    context, _, _ = subject[1:].partition(":")
    return context


def in_context(context: str, subject: str) -> str:
    """Return the full name of a subject that has no context in its name, in another one's context."""
    if context == DEFAULT_CONTEXT or subject.startswith(_PREFIX):
        return plain(subject)
    return f":{context}:{subject}"


def plain(subject: str) -> str:
    """Return the name without the default context, ``:.:``."""
    return subject.removeprefix(f":{DEFAULT_CONTEXT}:")


def is_context(subject: str) -> bool:
    """Whether it names a whole context, ``:.dev:``."""
    return subject.startswith(_PREFIX) and subject[1:].partition(":")[2] == ""


def is_valid(subject: str) -> bool:
    """Whether it is a name: not empty, without control characters, and not Confluent's name for the global settings."""
    return bool(subject.strip()) and subject.isprintable() and subject not in ("__GLOBAL", "__EMPTY")
