"""Settings that are changed while the broker runs. (Kafka: DynamicBrokerConfig; KIP-226.)

A value comes from, first wins: the broker's own dynamic settings, those of all brokers, the broker's file, the default. What is
set last in the metadata store is applied at once: the broker's KafkaConfig takes the new values, and the parts that have to do
something about them are told.

Who lets somebody change settings asks ``validate`` before writing them to the store; what is written by others and
cannot be applied is passed over with a line in the log, and the broker goes on with what it had.
"""

import threading
from collections.abc import Mapping

from twisted.logger import Logger
from zope.interface import Attribute, Interface

from twisted_kafka.config import dynamic_rules
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.passwords import PasswordEncoder
from twisted_kafka.config.prefixes import base_key

_log = Logger()


class IReconfigurable(Interface):
    """A part of the broker that has to do something when settings change. (Kafka: BrokerReconfigurable.)"""

    reconfigurable_keys = Attribute(
        "The keys that it wants to hear of, a set; a key with a listener's prefix counts as the bare one."
    )
    rereads_files = Attribute("Whether it reads files that may have changed: it is told whenever the broker's own settings are.")

    def validate_reconfiguration(old: KafkaConfig, new: KafkaConfig) -> None:  # noqa: N805
        """Raise ConfigError when it could not work with the new settings; change nothing."""

    def reconfigure(old: KafkaConfig, new: KafkaConfig) -> None:  # noqa: N805
        """Work with the new settings, which the broker's configuration has already."""


class DynamicBrokerConfig:
    """Puts the layers together and applies changes; all methods are for any thread."""

    def __init__(self, config: KafkaConfig) -> None:
        """Raises ConfigError when passwords cannot be kept as ``password.encoder.*`` say."""
        self._config = config
        self._static = dict(config.originals)
        self._passwords = PasswordEncoder(config)
        self._lock = threading.RLock()
        self._defaults: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._reconfigurables: list[IReconfigurable] = []

    def add_reconfigurable(self, reconfigurable: IReconfigurable) -> None:
        """Ask and tell it, behind those that were added before."""
        with self._lock:
            self._reconfigurables.append(reconfigurable)

    def validate(self, settings: Mapping[str, str], *, per_broker: bool) -> None:
        """Raise ConfigError when these cannot be the dynamic settings of this broker (``per_broker``), or of all brokers.

        ``settings`` are all of them as they would be after the change, passwords in clear text. Nothing is changed.
        """
        dynamic_rules.check(settings, per_broker=per_broker)
        with self._lock:
            own, defaults = (settings, self._defaults) if per_broker else (self._own, settings)
            new = self._layered(defaults, own)
            for reconfigurable in self._concerned(self._config.changed_keys(new)):
                reconfigurable.validate_reconfiguration(self._config, new)

    def stored(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return settings as they are to lie in the metadata store: passwords encoded. Raises ConfigError without a secret."""
        encode = self._passwords.encode
        return {name: encode(text) if dynamic_rules.is_secret(name) else text for name, text in settings.items()}

    def loaded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return settings of the metadata store with passwords in clear text; one that cannot be decoded is left out and logged."""
        return {name: text for name, text in map(self._decoded, stored.items()) if text is not None}

    def with_new_secret(self, stored: Mapping[str, str]) -> dict[str, str] | None:
        """Return settings of the store, passwords of ``password.encoder.old.secret`` encoded anew; None: there are none."""
        changed = {}
        for name, text in stored.items():
            if dynamic_rules.is_secret(name) and (password := self._passwords.decode_old(text)) is not None:
                changed[name] = self._passwords.encode(password)
        return {**stored, **changed} if changed else None

    def update_own(self, settings: Mapping[str, str]) -> None:
        """Apply what the store has for this broker (``/config/brokers/<id>``), passwords encoded."""
        with self._lock:
            self._update(self._defaults, self._usable(settings, per_broker=True), rereads_files=True)

    def update_defaults(self, settings: Mapping[str, str]) -> None:
        """Apply what the store has for all brokers (``/config/brokers/<default>``)."""
        with self._lock:
            self._update(self._usable(settings, per_broker=False), self._own)

    def _update(self, defaults: dict[str, str], own: dict[str, str], *, rereads_files: bool = False) -> None:
        try:
            new = self._layered(defaults, own)
            changed = self._config.changed_keys(new)
            concerned = self._concerned(changed, rereads_files=rereads_files)
            for reconfigurable in concerned:
                reconfigurable.validate_reconfiguration(self._config, new)
        except ConfigError as error:
            _log.error("The dynamic configuration is not applied: {error}", error=error)
            return
        self._defaults, self._own = defaults, own
        old = self._config.copy()
        self._config.adopt(new)
        if changed:
            shown = ", ".join(f"{key}={_shown(new, key)}" for key in sorted(changed))
            _log.info("Dynamic configuration: {changes}", changes=shown)
        for reconfigurable in concerned:
            try:
                reconfigurable.reconfigure(old, new)
            except Exception:  # noqa: BLE001 the other parts have to be told too
                _log.failure("{part} could not be reconfigured", part=type(reconfigurable).__name__)

    def _usable(self, settings: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        """Return the settings, passwords decoded, without those that may not be set there."""
        usable = self.loaded(settings)
        for name, why in dynamic_rules.refused(usable, per_broker=per_broker).items():
            del usable[name]
            _log.error("The dynamic config {name} is ignored: {why}", name=name, why=why)
        return usable

    def _decoded(self, item: tuple[str, str]) -> tuple[str, str | None]:
        name, text = item
        if not dynamic_rules.is_secret(name):
            return item
        try:
            return name, self._passwords.decode(text)
        except ValueError as error:
            _log.error("The dynamic password config {name} cannot be decoded, and is ignored: {error}", name=name, error=error)
            return name, None

    def _layered(self, defaults: Mapping[str, str], own: Mapping[str, str]) -> KafkaConfig:
        new = KafkaConfig({**self._static, **defaults, **own}, in_process=self._config.in_process)
        new.take_broker_id(self._config.int("broker.id"))
        return new

    def _concerned(self, changed: frozenset[str], *, rereads_files: bool = False) -> list[IReconfigurable]:
        bases = {base_key(name) or name for name in changed}
        return [
            each
            for each in self._reconfigurables
            if not bases.isdisjoint(each.reconfigurable_keys) or (rereads_files and each.rereads_files)
        ]


def _shown(config: KafkaConfig, key: str) -> str:
    if dynamic_rules.is_secret(key):
        return "[hidden]"
    return str(config[key] if key in config else config.prefixed(key))
