"""SCRAM credentials in the metadata store: what may be set, what Kafka would say, and that logins follow at once."""

from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from twisted_kafka.admin.scram_credentials import Deletion, ScramCredentialAdmin, Upsertion
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.registration import prepare_store
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, error_of
from twisted_kafka.security.scram.credential_cache import CredentialCache
from twisted_kafka.security.scram.formulas import SCRAM_SHA_256, SCRAM_SHA_512, salted_password
from twisted_kafka.timing.clock import ManualClock

TWICE = "A user credential cannot be altered twice in the same request"
MISSING = "Attempt to delete a user credential that does not exist"
SHA_256, SHA_512 = SCRAM_SHA_256.number, SCRAM_SHA_512.number


class Store:
    """A metadata store whose changes are applied by ``pump``."""

    def __init__(self, path: Path) -> None:
        clock = ManualClock()
        self.store = SqliteStore(path / "metadata", clock, threaded=False)
        prepare_store(self.store)
        self.configs = ConfigRepository(self.store, clock, threaded=False)
        self.configs.startup()
        self.admin = ScramCredentialAdmin(self.configs)
        self.cache = CredentialCache(self.configs)

    def pump(self) -> None:
        self.store.pump()
        self.configs.pump()

    def alter(self, *changes: Upsertion | Deletion) -> dict[str, tuple[ErrorCode, str] | None]:
        upsertions = [each for each in changes if isinstance(each, Upsertion)]
        deletions = [each for each in changes if isinstance(each, Deletion)]
        results = self.admin.alter(upsertions, deletions)
        return {user: None if error is None else (error_of(error), str(error)) for user, error in results.items()}

    def described(self, *users: str) -> dict[str, object]:
        return {
            user: error_of(found) if isinstance(found, KafkaError) else list(found)
            for user, found in self.admin.describe(users or None)
        }


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def put(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> Upsertion:
    known = SCRAM_SHA_512 if mechanism == SHA_512 else SCRAM_SHA_256
    salted = salted_password(known, b"s3cret", b"salt", 1)
    return Upsertion(user, mechanism, iterations, b"salt", salted)


def test_a_credential_is_stored_as_kafkas_and_found_at_once(store: Store) -> None:
    store.configs.write("users/a%2Fb", {"producer_byte_rate": "7"})
    assert store.alter(put("a/b"), put("a/b", SHA_512, 16_384)) == {"a/b": None}
    config = store.configs.config("users/a%2Fb")
    assert config["producer_byte_rate"] == "7"
    assert config["SCRAM-SHA-256"].startswith("salt=c2FsdA==,stored_key=")
    assert config["SCRAM-SHA-512"].endswith(",iterations=16384")
    assert store.cache.credential("SCRAM-SHA-512", "a/b") is None
    store.pump()
    assert store.cache.credential("SCRAM-SHA-512", "a/b").iterations == 16_384
    assert CredentialCache(store.configs).credential("SCRAM-SHA-256", "a/b") is not None
    assert store.described() == {"a/b": [(SHA_256, 4096), (SHA_512, 16_384)]}


def test_it_knows_how_many_iterations_most_credentials_have(store: Store) -> None:
    def usual(*changes: Upsertion | Deletion) -> tuple[int, int]:
        store.alter(*changes)
        store.pump()
        return store.cache.usual_iterations("SCRAM-SHA-256"), store.cache.usual_iterations("SCRAM-SHA-512")

    assert usual() == (4096, 4096)
    assert usual(put("alice", SHA_256, 8192)) == (8192, 4096)
    assert usual(put("bob"), put("carol"), put("carol", SHA_512, 16_384)) == (4096, 16_384)
    assert usual(put("bob", SHA_256, 8192)) == (8192, 16_384)
    assert usual(Deletion("alice", SHA_256)) == (4096, 16_384)  # one each: the fewer
    assert usual(*(Deletion(user, SHA_256) for user in ("bob", "carol"))) == (4096, 16_384)


def test_a_deleted_credential_is_gone_and_others_stay(store: Store) -> None:
    store.alter(put("alice"), put("alice", SHA_512), put("bob"))
    assert store.alter(Deletion("alice", SHA_512)) == {"alice": None}
    store.pump()
    assert store.cache.credential("SCRAM-SHA-512", "alice") is None
    assert store.cache.credential("SCRAM-SHA-256", "alice") is not None
    assert store.described() == {"alice": [(SHA_256, 4096)], "bob": [(SHA_256, 4096)]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([put("")], {"": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")}),
        ([Deletion("", SHA_256)], {"": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")}),
        ([put("u", 3)], {"u": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")}),
        ([Deletion("u", 0)], {"u": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")}),
        ([put("u", iterations=4095)], {"u": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")}),
        ([put("u", iterations=16_385)], {"u": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")}),
        (
            [put("u"), put("u")],
            {"u": (ErrorCode.DUPLICATE_RESOURCE, TWICE)},
        ),
        (
            [put("u"), Deletion("u", SHA_256)],
            {"u": (ErrorCode.DUPLICATE_RESOURCE, TWICE)},
        ),
        (
            [Deletion("u", SHA_256)],
            {"u": (ErrorCode.RESOURCE_NOT_FOUND, MISSING)},
        ),
        (
            [put("u"), Deletion("u", SHA_512)],
            {"u": (ErrorCode.RESOURCE_NOT_FOUND, MISSING)},
        ),
    ],
)
def test_a_bad_change_changes_nothing_of_its_user_and_others_are_made(
    store: Store, changes: list[Upsertion | Deletion], expected: dict[str, object]
) -> None:
    assert store.alter(put("fine"), *changes) == {**expected, "fine": None}
    assert store.described() == {"fine": [(SHA_256, 4096)]}


def test_an_empty_password_is_refused(store: Store) -> None:
    (error,) = store.alter(Upsertion("u", SHA_256, 4096, b"salt", b"")).values()
    assert error[0] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert store.described() == {}


def test_users_are_described_once_or_not_at_all(store: Store) -> None:
    store.alter(put("alice"))
    store.configs.write("users/quoted", {"producer_byte_rate": "7"})
    assert store.described("alice", "quoted", "", "twice", "twice") == {
        "alice": [(SHA_256, 4096)],
        "quoted": ErrorCode.RESOURCE_NOT_FOUND,
        "": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
    }


def test_a_credential_that_cannot_be_read_is_none_and_is_not_shown(store: Store) -> None:
    with capturedLogs() as logged:
        store.configs.write("users/alice", {"SCRAM-SHA-256": "salt=s3cret"})
        store.pump()
    assert store.cache.credential("SCRAM-SHA-256", "alice") is None
    assert any("alice" in (formatEvent(event) or "") for event in logged)
    assert "s3cret" not in str(logged)
    assert "salt" not in repr(put("alice"))


class CountedName(str):
    """A user's name that counts comparisons."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


def test_the_work_for_a_request_grows_as_its_users(tmp_path: Path) -> None:
    store = Store(tmp_path)
    users = 200
    CountedName.comparisons = 0
    results = store.admin.alter([], [Deletion(CountedName(f"user-{number}"), SHA_256) for number in range(users)])
    assert len(results) == users
    assert CountedName.comparisons < 20 * users
    store.store.close()


def test_a_name_that_no_user_can_have_fails_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (wrong, right) = store.alter(Deletion("..", SHA_256), Deletion("alice", SHA_256)).values()
    assert wrong is not None
    assert wrong[0] == ErrorCode.INVALID_REQUEST
    assert right == (ErrorCode.RESOURCE_NOT_FOUND, MISSING)
    assert store.described("..", "alice") == {"..": ErrorCode.INVALID_REQUEST, "alice": ErrorCode.RESOURCE_NOT_FOUND}
    store.store.close()
