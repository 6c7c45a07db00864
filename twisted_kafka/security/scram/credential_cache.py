"""The SCRAM credentials of all users, read from the metadata store and kept up to date. (Kafka: CredentialProvider.)"""

from collections import Counter

from twisted.logger import Logger

from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.znode_json import desanitized
from twisted_kafka.metadata.znodes import DEFAULT_ENTITY
from twisted_kafka.security.scram.credentials import ScramCredential, parse_credential
from twisted_kafka.security.scram.formulas import MIN_ITERATIONS, SCRAM_MECHANISMS
from twisted_kafka.system import machine

_USERS = "users"

_log = Logger()


class CredentialCache:
    """Follows changes on the config-change thread; any thread may look up."""

    def __init__(self, configs: ConfigRepository) -> None:
        """Read all credentials, and follow changes from now on."""
        self._configs = configs
        self._lock = machine.Lock()
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._counts: dict[str, Counter[int]] = {mechanism.name: Counter() for mechanism in SCRAM_MECHANISMS}
        self._usual_iterations: dict[str, int] = {}
        configs.add_listener(_USERS, lambda node, config: self._read([node]))
        self._read(configs.names(_USERS))

    def credential(self, mechanism: str, username: str) -> ScramCredential | None:
        """Return a user's credential for a mechanism, if there is one."""
        return self._credentials.get((mechanism, username))

    def usual_iterations(self, mechanism: str) -> int:
        """Return the most frequent number of iterations for a mechanism. The broker sends it to unknown users, too."""
        return self._usual_iterations.get(mechanism, MIN_ITERATIONS)

    def _read(self, nodes: list[str]) -> None:
        # Read with the lock held, so that later data is also stored later.
        with self._lock:
            users = [node for node in nodes if "/" not in node]  # others are quotas of a user's clients
            for node, config in zip(users, self._configs.configs(f"{_USERS}/{node}" for node in users), strict=True):
                if node != DEFAULT_ENTITY:
                    self._update(desanitized(node), config)

    def _update(self, username: str, config: dict[str, str]) -> None:
        for mechanism in SCRAM_MECHANISMS:
            text = config.get(mechanism.name)
            credential = None
            if text is not None:
                try:
                    credential = parse_credential(text)
                except ValueError as error:
                    _log.error(
                        "The {name} credential of user {user} is ignored: {why}", name=mechanism.name, user=username, why=error
                    )
            self._replace(mechanism.name, username, credential)

    def _replace(self, mechanism: str, username: str, credential: ScramCredential | None) -> None:
        key, counts = (mechanism, username), self._counts[mechanism]
        before = self._credentials.get(key)
        if before is not None:
            counts[before.iterations] -= 1
        if credential is None:
            self._credentials.pop(key, None)
        else:
            self._credentials[key] = credential
            counts[credential.iterations] += 1
        usual = max(counts, key=lambda number: (counts[number], -number), default=MIN_ITERATIONS)
        self._usual_iterations[mechanism] = usual if counts[usual] else MIN_ITERATIONS
