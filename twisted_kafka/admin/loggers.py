"""The levels of this broker's loggers, which can change while it runs (KIP-412).

A logger is a namespace of ``twisted.logger``: a module, or a package whose level applies to everything below it. All
others fall back to ``root``. Names of Kafka's own loggers stand for those here (``kafka_loggers``). Kafka's levels are used: TRACE
counts as DEBUG here, FATAL is critical.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Final

from constantly import NamedConstant  # type: ignore[import-untyped]
from twisted.logger import (
    FilteringLogObserver,
    ILogFilterPredicate,
    ILogObserver,
    LogEvent,
    LogLevel,
    LogLevelFilterPredicate,
    LogPublisher,
    PredicateResult,
)
from zope.interface import implementer

from twisted_kafka.admin.kafka_loggers import KAFKAS_LOGGERS
from twisted_kafka.admin.printable_events import PrintableEvents
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError
from twisted_kafka.system import machine

ROOT: Final = "root"
PACKAGES: Final = ("twisted_kafka", "twisted")
"""Packages whose modules are loggers."""

_PREFIXES: Final = tuple(f"{package}." for package in PACKAGES)

NAMED: Final = ("kafka.authorizer.logger",)
"""Loggers that are no modules, by Kafka's names."""

LEVELS: Final[Mapping[str, NamedConstant]] = {
    "TRACE": LogLevel.debug,
    "DEBUG": LogLevel.debug,
    "INFO": LogLevel.info,
    "WARN": LogLevel.warn,
    "ERROR": LogLevel.error,
    "FATAL": LogLevel.critical,
}

_NAMES: Final = {level: name for name, level in LEVELS.items() if name != "TRACE"}


@implementer(ILogFilterPredicate)
class LoggerLevels:
    """A predicate for a ``FilteringLogObserver`` that decides which events are logged."""

    def __init__(self) -> None:
        self._predicate = LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)
        self._own: dict[tuple[str, ...], NamedConstant] = {}  # by the namespaces of a logger
        self._followers: list[tuple[str, Callable[[NamedConstant], object]]] = []

    def __call__(self, event: LogEvent) -> NamedConstant:
        """Reject events below their logger's level; events of other packages pass."""
        namespace = event.get("log_namespace") or ""
        is_own = namespace.partition(".")[0] in PACKAGES or namespace in NAMED
        if event.get("log_level") is None or not is_own:
            return PredicateResult.maybe
        return self._predicate(event)

    def install(self, publisher: LogPublisher) -> None:
        """Filter the events of the publisher's present observers, until ``uninstall``.

        Brokers of one process share the filter: an event passes if one of the brokers wants it.
        """
        with _FILTERS_LOCK:
            _FILTERS.setdefault(publisher, _Filter()).add(self, publisher)

    def uninstall(self) -> None:
        """Stop filtering for this broker. The last broker of a publisher restores the publisher's observers."""
        with _FILTERS_LOCK:
            for publisher, shared in list(_FILTERS.items()):
                if shared.remove(self, publisher):
                    del _FILTERS[publisher]

    def level(self, logger: str) -> str:
        """Return the effective level, by Kafka's name."""
        return _NAMES[self._predicate.logLevelForNamespace(_namespaces(logger)[0])]

    def follow(self, logger: str, changed: Callable[[NamedConstant], object]) -> None:
        """Call ``changed`` with the effective level of a logger, now and whenever a level has been set."""
        self._followers.append((logger, changed))
        changed(self._predicate.logLevelForNamespace(logger))

    def all(self) -> dict[str, str]:
        """Return the levels of all loggers by name."""
        return {ROOT: self.level(ROOT), **{name: self.level(name) for name in sorted(_known())}}

    def validate(self, logger: str, level: str | None) -> None:
        """Raise InvalidConfigurationError or InvalidRequestError for an invalid level; None removes the logger's own."""
        if logger != ROOT and not _is_known(logger):
            raise InvalidConfigurationError(f"Logger {logger} does not exist")
        if level is None and logger == ROOT:
            raise InvalidRequestError("Removing the level of the root logger is not allowed")
        if level is not None and level not in LEVELS:
            raise InvalidConfigurationError(
                f"Invalid value {level!r} for logger {logger}: it is not a supported log level, which are {', '.join(LEVELS)}"
            )

    def set(self, logger: str, level: str | None) -> None:
        """Set the logger's level, or with None remove it; raises the errors of ``validate``."""
        self.validate(logger, level)
        if level is None:
            self._own.pop(_namespaces(logger), None)
        else:
            self._own[_namespaces(logger)] = LEVELS[level]
        # Replaced as a whole: other threads read it meanwhile.
        predicate = LogLevelFilterPredicate(defaultLogLevel=self._own.get(("",), LogLevel.info))
        # The level of one namespace takes precedence over the level of several.
        for names in sorted(self._own, key=len, reverse=True):
            for name in names:
                predicate.setLogLevelForNamespace(name, self._own[names])
        self._predicate = predicate
        for name, changed in self._followers:
            changed(predicate.logLevelForNamespace(name))


@implementer(ILogFilterPredicate)
class _Filter:
    """Stands in front of a publisher's observers, once, for as long as there is a broker.

    A filter for each broker would have to be removed in the reverse order: removed in another, the observers between two of
    them are doubled.
    """

    def __init__(self) -> None:
        self._levels: tuple[LoggerLevels, ...] = ()  # replaced as a whole: other threads read it meanwhile
        self._observers: dict[FilteringLogObserver, ILogObserver] = {}

    def __call__(self, event: LogEvent) -> NamedConstant:
        # All have the same classes of events; they differ in the levels.
        decisions = [levels(event) for levels in self._levels]
        return PredicateResult.maybe if PredicateResult.maybe in decisions else PredicateResult.no

    def add(self, levels: LoggerLevels, publisher: LogPublisher) -> None:
        self._levels = (*self._levels, levels)
        # twistd creates the observer of its log file before it starts the service, and does not expose it.
        for observer in tuple(publisher._observers):
            if observer not in self._observers:
                filtered = FilteringLogObserver(PrintableEvents(observer), [self])
                self._observers[filtered] = observer
                publisher.removeObserver(observer)
                publisher.addObserver(filtered)

    def remove(self, levels: LoggerLevels, publisher: LogPublisher) -> bool:
        """Return whether this was the last one, whereupon the observers are the publisher's own again."""
        self._levels = tuple(each for each in self._levels if each is not levels)
        if self._levels:
            return False
        for filtered, observer in self._observers.items():
            if filtered in publisher._observers:  # somebody may have removed it
                publisher.removeObserver(filtered)
                publisher.addObserver(observer)
        return True


_FILTERS: Final[dict[LogPublisher, _Filter]] = {}
_FILTERS_LOCK: Final = machine.Lock()


def _known() -> set[str]:
    return {name for name in tuple(sys.modules) if _is_known(name)}.union(NAMED, KAFKAS_LOGGERS)


def _is_known(name: str) -> bool:
    """Whether there is a logger of that name, besides the root."""
    is_module = name in PACKAGES or name.startswith(_PREFIXES)
    return (is_module and name in sys.modules) or name in NAMED or name in KAFKAS_LOGGERS


def _namespaces(logger: str) -> tuple[str, ...]:
    return ("",) if logger == ROOT else KAFKAS_LOGGERS.get(logger, (logger,))
