"""Settings that change while the broker runs. (Kafka: DynamicBrokerConfig; KIP-226.)

In order of precedence, a value comes from the broker's own dynamic settings, the dynamic settings of all brokers, the broker's
file, or the default. A change in the metadata store is applied at once: the broker's KafkaConfig takes over the new values, and the
reconfigurable parts of the broker are notified.

A handler that changes settings calls ``validate`` before it writes them to the store. Invalid settings that something else wrote to
the store are logged and ignored, and the broker keeps its previous values.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic import dynamic_rules
from twisted_kafka.config.dynamic.passwords import PasswordEncoder
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.prefixes import base_key
from twisted_kafka.system import machine

_log = Logger()


class IReconfigurable(Protocol):
    """A part of the broker that has to act when settings change. (Kafka: BrokerReconfigurable.)"""

    @property
    def reconfigurable_keys(self) -> Collection[str]:
        """The set of keys whose changes it handles; a listener prefix of a key is ignored."""

    @property
    def rereads_files(self) -> bool:
        """Whether it reads files that may have changed: it is notified of every update of this broker's settings."""

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Raise ConfigError when it cannot work with the new settings; change nothing."""

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Apply the new settings; the broker's configuration already has them."""


class DynamicBrokerConfig:
    """Combines the layers of settings and applies changes; its methods may be called on any thread."""

    def __init__(self, config: KafkaConfig) -> None:
        """Raises ConfigError when the settings ``password.encoder.*`` are invalid."""
        self._config = config
        self._static = config.copy()
        self._classes = config.class_names
        self._passwords = PasswordEncoder(config)
        self._lock = machine.RLock()
        self._defaults: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._reconfigurables: list[IReconfigurable] = []

    def add_reconfigurable(self, reconfigurable: IReconfigurable) -> None:
        """Add a part that validates changes and is notified of them, after the parts added before it."""
        with self._lock:
            self._reconfigurables.append(reconfigurable)

    def validate(self, settings: Mapping[str, str], *, per_broker: bool) -> None:
        """Raise ConfigError when these are not valid dynamic settings of this broker (``per_broker``), or of all brokers.

        ``settings`` are all settings as they would be after the change, with passwords in clear text. Nothing is changed.
        """
        dynamic_rules.check(settings, per_broker=per_broker, classes=self._classes)
        with self._lock:
            own, defaults = (settings, self._defaults) if per_broker else (self._own, settings)
            new = self._layered(defaults, own)
            for reconfigurable in self._concerned(self._config.changed_keys(new)):
                reconfigurable.validate_reconfiguration(self._config, new)

    def stored(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return settings as the metadata store holds them, with passwords encoded. Raises ConfigError without a secret."""
        encode = self._passwords.encode
        return {name: encode(text) if dynamic_rules.is_secret(name) else text for name, text in settings.items()}

    def loaded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return settings of the store with passwords in clear text. Passwords that cannot be decoded are logged and omitted."""
        return {name: text for name, text in map(self._decoded, stored.items()) if text is not None}

    def with_new_secret(self, stored: Mapping[str, str]) -> dict[str, str] | None:
        """Return settings of the store, with passwords of ``password.encoder.old.secret`` re-encoded; None if nothing changes."""
        changed = {}
        for name, text in stored.items():
            if dynamic_rules.is_secret(name) and (password := self._passwords.decode_old(text)) is not None:
                changed[name] = self._passwords.encode(password)
        return {**stored, **changed} if changed else None

    def load(self, defaults: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Apply the store's settings of all brokers and of this one, at the start: no file can have changed since."""
        with self._lock:
            self._update(self._usable(defaults, per_broker=False), self._usable(own, per_broker=True))

    def start_with(self, defaults: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Apply the store's settings. Settings that prevent a start are left out and logged as errors."""
        with self._lock:
            self._defaults, self._own = self._usable(defaults, per_broker=False), self._usable(own, per_broker=True)
            self.leave_out_what_fails(lambda config: None)
            self._warn_of_prefixes(self._layered(self._defaults, self._own), {*self._defaults.items(), *self._own.items()})

    def leave_out_what_fails(
        self, trial: Callable[[KafkaConfig], object], concerns: Callable[[str], bool] = lambda name: True
    ) -> None:
        """Leave out settings of the store with which ``trial`` raises ConfigError: one if that suffices, and otherwise all.

        ``concerns`` says which settings ``trial`` depends on: others are neither tried nor left out. An error that stays without
        these settings has another cause, and is left to the parts that use them.
        """
        with self._lock:
            names = sorted(filter(concerns, self._own.keys() | self._defaults.keys()))
            if not names:
                return
            why = self._why_it_fails(trial, ())
            if why is None:
                self._config.adopt(self._layered(self._defaults, self._own))
                return
            one = next(((name,) for name in names if self._why_it_fails(trial, (name,)) is None), None)
            if one is None and self._why_it_fails(trial, names) is not None:
                return
            for name in one or names:
                _log.error("The dynamic config {name} is left out, as the broker could not start: {why}", name=name, why=why)
                _log.error("{remedy}", remedy=_remedy(name))
                self._own.pop(name, None)
                self._defaults.pop(name, None)
            self._config.adopt(self._layered(self._defaults, self._own))

    def _why_it_fails(self, trial: Callable[[KafkaConfig], object], without: Collection[str]) -> ConfigError | None:
        try:
            trial(self._layered(_without(self._defaults, without), _without(self._own, without)))
        except ConfigError as error:
            return error
        return None

    def update_own(self, settings: Mapping[str, str]) -> None:
        """Apply the store's settings of this broker (``/config/brokers/<id>``), which have passwords encoded."""
        with self._lock:
            self._update(self._defaults, self._usable(settings, per_broker=True), rereads_files=True)

    def update_defaults(self, settings: Mapping[str, str]) -> None:
        """Apply the store's settings of all brokers (``/config/brokers/<default>``)."""
        with self._lock:
            self._update(self._usable(settings, per_broker=False), self._own)

    def _update(self, defaults: dict[str, str], own: dict[str, str], *, rereads_files: bool = False) -> None:
        if (defaults, own) == (self._defaults, self._own) and not rereads_files:
            return
        try:
            new = self._layered(defaults, own)
            changed = self._config.changed_keys(new)
            concerned = self._concerned(changed, rereads_files=rereads_files)
            for reconfigurable in concerned:
                reconfigurable.validate_reconfiguration(self._config, new)
        except ConfigError as error:
            _log.error("The dynamic configuration is invalid and was not applied: {error}", error=error)
            return
        self._warn_of_prefixes(new, {*defaults.items(), *own.items()} - {*self._defaults.items(), *self._own.items()})
        self._defaults, self._own = defaults, own
        old = self._config.copy()
        self._config.adopt(new)
        if changed:
            shown = ", ".join(f"{key}={_shown(new, key)}" for key in sorted(changed))
            _log.info("Dynamic configuration changed: {changes}", changes=shown)
        for reconfigurable in concerned:
            try:
                reconfigurable.reconfigure(old, new)
            except Exception:  # noqa: BLE001 the other parts have to be notified too
                _log.failure("Failed to reconfigure {part}", part=type(reconfigurable).__name__)

    def _usable(self, settings: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        """Return the settings that are allowed at this level, with passwords decoded."""
        usable = self.loaded(settings)
        for name, why in dynamic_rules.refused(usable, per_broker=per_broker, classes=self._classes).items():
            del usable[name]
            _log.error("The dynamic config {name} is ignored: {why}. {remedy}", name=name, why=why, remedy=_remedy(name))
        return usable

    @staticmethod
    def _warn_of_prefixes(config: KafkaConfig, changed: Collection[tuple[str, str]]) -> None:
        """Warn of changed settings with the prefix of a listener that have no effect: they may be meant for one to come."""
        for name, why in config.useless_prefixes.items():
            if (name, config.originals[name]) in changed:
                _log.warn("The dynamic config {name} has no effect: {why}", name=name, why=why)

    def _decoded(self, item: tuple[str, str]) -> tuple[str, str | None]:
        name, text = item
        if not dynamic_rules.is_secret(name):
            return item
        try:
            return name, self._passwords.decode(text)
        except ValueError as error:
            _log.error("The dynamic password config {name} cannot be decoded and is ignored: {error}", name=name, error=error)
            return name, None

    def _layered(self, defaults: Mapping[str, str], own: Mapping[str, str]) -> KafkaConfig:
        new = self._static.layered({**defaults, **own})
        new.take_broker_id(self._config.int("broker.id"))
        return new

    def _concerned(self, changed: frozenset[str], *, rereads_files: bool = False) -> list[IReconfigurable]:
        bases = {base_key(name) or name for name in changed}
        return [
            each
            for each in self._reconfigurables
            if not bases.isdisjoint(each.reconfigurable_keys) or (rereads_files and each.rereads_files)
        ]


def _without(settings: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: text for name, text in settings.items() if name not in names}


def _remedy(name: str) -> str:
    return (
        f"Correct or delete it: twisted-kafka configs alter broker default --delete {name} (or the broker's id instead of default)"
    )


def _shown(config: KafkaConfig, key: str) -> str:
    if dynamic_rules.is_secret(key):
        return "[hidden]"
    return str(config[key] if key in config else config.prefixed(key))
