"""Describes, sets and deletes the SCRAM credentials of users. (Kafka: ZkAdminManager.alterUserScramCredentials and describe...)

They are in ``/config/users/<name>``, beside the user's quotas. Clients send salted passwords: the broker computes the keys that it
stores, and never sees the password.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.protocol.errors import (
    DuplicateResourceError,
    KafkaError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnknownServerError,
    UnsupportedSaslMechanismError,
)
from twisted_kafka.quota.entities import entity_name, node_name
from twisted_kafka.security.scram.credentials import make_credential, parse_credential
from twisted_kafka.security.scram.formulas import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS

_BY_NUMBER: Final = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS}
_EMPTY_NAME: Final = "Username must not be empty"

_log = Logger()


class Upsertion(NamedTuple):
    """A credential to set, with the number of its mechanism."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    @override
    def __repr__(self) -> str:
        return f"Upsertion({self.user!r}, mechanism {self.mechanism})"


class Deletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: int


Described = tuple[str, Sequence[tuple[int, int]] | KafkaError]
"""A user with the mechanisms and iterations of the credentials, or with an error."""


class ScramCredentialAdmin:
    """Thread-safe."""

    def __init__(self, configs: ConfigRepository) -> None:
        self._configs = configs

    def describe(self, users: Sequence[str] | None) -> list[Described]:
        """Describe the given users, each once; None or none for all that have credentials, sorted."""
        if not users:
            nodes = self._configs.names("users")
            named = [(name, node) for node in nodes if (name := entity_name(node)) is not None]
            configs = self._configs.configs(f"users/{node}" for _, node in named)
            found = ((name, _described(config)) for (name, _), config in zip(named, configs, strict=True))
            return sorted((each for each in found if each[1]), key=lambda each: each[0])
        counts = Counter(users)
        return [(user, self._describe_one(user, counts[user])) for user in counts]

    def _describe_one(self, user: str, count: int) -> Sequence[tuple[int, int]] | KafkaError:
        if not user:
            return ResourceNotFoundError(_EMPTY_NAME)
        if count > 1:
            return DuplicateResourceError(f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}")
        try:
            found = _described(self._configs.config(_path(user)))
        except KafkaError as error:  # of a name that no user can have
            return error
        return found or ResourceNotFoundError(f"Attempt to describe a user credential that does not exist: {user}")

    def alter(self, upsertions: Sequence[Upsertion], deletions: Sequence[Deletion]) -> Mapping[str, KafkaError | None]:
        """Set and delete credentials. Return None for each user whose changes were all made, and an error if none were."""
        results: dict[str, KafkaError | None] = dict(_invalid(upsertions, deletions))
        changes: list[Upsertion | Deletion] = [*upsertions, *deletions]
        pairs = Counter((each.user, each.mechanism) for each in changes if each.user not in results)
        for (user, _), count in pairs.items():
            if count > 1:
                results[user] = DuplicateResourceError("A user credential cannot be altered twice in the same request")
        by_user: dict[str, tuple[list[Upsertion], list[Deletion]]] = {user: ([], []) for user, _ in pairs if user not in results}
        for each in changes:
            if (of_user := by_user.get(each.user)) is not None:
                (of_user[0] if isinstance(each, Upsertion) else of_user[1]).append(each)  # type: ignore[arg-type]
        for user, (its_upsertions, its_deletions) in by_user.items():
            try:
                self._change(user, its_upsertions, its_deletions)
                results[user] = None
            except KafkaError as error:
                results[user] = error
            except Exception:  # noqa: BLE001 the other users do not depend on this one
                _log.failure("The SCRAM credentials of user {user} could not be altered", user=user)
                results[user] = UnknownServerError("The credential could not be stored")
        return results

    def _change(self, user: str, upsertions: Sequence[Upsertion], deletions: Sequence[Deletion]) -> None:
        def alter(config: dict[str, str]) -> dict[str, str]:
            for deletion in deletions:
                if config.pop(_BY_NUMBER[deletion.mechanism].name, None) is None:
                    raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")
            for each in upsertions:
                mechanism = _BY_NUMBER[each.mechanism]
                if not each.salted_password:  # the code is Kafka's, where Java refuses an empty key
                    raise UnknownServerError("The salted password is empty")
                config[mechanism.name] = make_credential(mechanism, each.salt, each.salted_password, each.iterations).encode()
            return config

        self._configs.change(_path(user), alter)


def _path(user: str) -> str:
    return f"users/{node_name(user)}"


def _described(config: Mapping[str, str]) -> Sequence[tuple[int, int]]:
    """Return number and iterations of each credential."""
    found = []
    for mechanism in SCRAM_MECHANISMS:
        text = config.get(mechanism.name)
        if text is not None:
            try:
                found.append((mechanism.number, parse_credential(text).iterations))
            except ValueError as error:
                _log.error("Leaving out an invalid {name} credential: {error}", name=mechanism.name, error=error)
    return found


def _invalid(upsertions: Iterable[Upsertion], deletions: Iterable[Deletion]) -> Iterable[tuple[str, KafkaError]]:
    for deletion in deletions:
        if not deletion.user:
            yield "", UnacceptableCredentialError(_EMPTY_NAME)
        elif deletion.mechanism not in _BY_NUMBER:
            yield deletion.user, UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    for each in upsertions:
        if not each.user:
            yield "", UnacceptableCredentialError(_EMPTY_NAME)
        elif each.mechanism not in _BY_NUMBER:
            yield each.user, UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
        elif each.iterations > MAX_ITERATIONS:
            yield each.user, UnacceptableCredentialError("Too many iterations")
        elif each.iterations < MIN_ITERATIONS:
            yield each.user, UnacceptableCredentialError("Too few iterations")
