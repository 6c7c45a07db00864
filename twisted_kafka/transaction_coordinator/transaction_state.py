"""The states of a transactional id, and which state may follow which (Kafka: TransactionState)."""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TransactionState(Enum):
    """A state; the value is its number in ``__transaction_state``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The state's name in DescribeTransactions and ListTransactions."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and markers are being written."""
        return self in COMPLETED

    @property
    def is_expirable(self) -> bool:
        """Whether an id in this state may expire: it has no transaction."""
        return self in VALID_PREVIOUS[TransactionState.DEAD]


_S = TransactionState

VALID_PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    # a producer was initialized
    _S.EMPTY: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    # partitions were added
    _S.ONGOING: frozenset({_S.ONGOING, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    # the outcome is decided; markers are being written
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    # with an epoch for each transaction, an abort without a transaction only bumps it
    _S.PREPARE_ABORT: frozenset({_S.ONGOING, _S.PREPARE_EPOCH_FENCE, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    # all markers are written
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    # expired: its tombstone is being written
    _S.DEAD: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    # the epoch is bumped to fence the producer of an ongoing transaction; never written, as PREPARE_ABORT follows in the same step
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
"""The states that may precede each state."""

COMPLETED: Final[Mapping[TransactionState, TransactionState]] = {
    _S.PREPARE_COMMIT: _S.COMPLETE_COMMIT,
    _S.PREPARE_ABORT: _S.COMPLETE_ABORT,
}
"""The state that follows a prepared one when all markers are written."""

_LABELS: Final[Mapping[TransactionState, str]] = {
    state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState
}
STATES_BY_LABEL: Final[Mapping[str, TransactionState]] = {label: state for state, label in _LABELS.items()}
