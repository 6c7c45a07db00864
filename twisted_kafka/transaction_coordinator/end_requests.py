"""The rules of EndTxn v5: what a producer may do in each state. The end of a transaction bumps its producer's epoch (KIP-890).

Each transaction has an epoch of its own, so an end names its transaction. The coordinator can distinguish a repeated request, a
request to end the next transaction, and a request that comes too late.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.producer_state.producer_state_manager import BUMPED_SINCE
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.transaction_coordinator.transaction_metadata import LAST_EPOCH, MAX_EPOCH, TransactionMetadata
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState


class Sender(Enum):
    """The sender of the request, by its producer id and epoch."""

    CURRENT = "has the present epoch"
    RETRYING = "has the epoch before the end that is asked for again"


class Step(Enum):
    """The step that the coordinator takes."""

    END = "the transaction ends"
    BUMP = "there is no transaction to abort; the epoch is bumped nevertheless"
    AGAIN = "the earlier answer is repeated"


_S = TransactionState
_CURRENT, _RETRYING = Sender.CURRENT, Sender.RETRYING
_COMMIT, _ABORT = True, False

STEPS: Final[Mapping[tuple[TransactionState, Sender, bool], Step | ErrorCode]] = {
    (_S.ONGOING, _CURRENT, _COMMIT): Step.END,
    (_S.ONGOING, _CURRENT, _ABORT): Step.END,
    (_S.ONGOING, _RETRYING, _COMMIT): ErrorCode.PRODUCER_FENCED,
    (_S.ONGOING, _RETRYING, _ABORT): ErrorCode.PRODUCER_FENCED,
    (_S.EMPTY, _CURRENT, _COMMIT): ErrorCode.INVALID_TXN_STATE,
    (_S.EMPTY, _CURRENT, _ABORT): Step.BUMP,
    (_S.EMPTY, _RETRYING, _COMMIT): ErrorCode.PRODUCER_FENCED,
    (_S.EMPTY, _RETRYING, _ABORT): ErrorCode.PRODUCER_FENCED,
    (_S.COMPLETE_COMMIT, _CURRENT, _COMMIT): ErrorCode.INVALID_TXN_STATE,
    (_S.COMPLETE_COMMIT, _CURRENT, _ABORT): Step.BUMP,
    (_S.COMPLETE_COMMIT, _RETRYING, _COMMIT): Step.AGAIN,
    (_S.COMPLETE_COMMIT, _RETRYING, _ABORT): ErrorCode.INVALID_TXN_STATE,
    (_S.COMPLETE_ABORT, _CURRENT, _COMMIT): ErrorCode.INVALID_TXN_STATE,
    (_S.COMPLETE_ABORT, _CURRENT, _ABORT): Step.BUMP,
    (_S.COMPLETE_ABORT, _RETRYING, _COMMIT): ErrorCode.INVALID_TXN_STATE,
    (_S.COMPLETE_ABORT, _RETRYING, _ABORT): Step.AGAIN,
}
"""By state, sender and outcome. In the other states a record of the id is being written, and everybody has to wait."""


def sender_of(before: TransactionMetadata, producer: Producer) -> Sender | ErrorCode:
    """Return who asks, or the error for a producer that is neither."""
    now = before.producer
    if producer == now and producer.epoch <= LAST_EPOCH:
        return _CURRENT
    if producer.producer_id != now.producer_id:
        has_new_id = producer == Producer(before.previous_producer_id, LAST_EPOCH) and now.epoch == 0
        return _RETRYING if has_new_id else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    # The epoch after an end without a bump is another producer's, which has fenced this one: asking again must not reveal it.
    is_bumped = before.client_version >= BUMPED_SINCE
    # No producer gets MAX_EPOCH, which only fences: a transaction prepared with it gets a new id, or has fenced its producer.
    if not is_bumped or producer.epoch + 1 != now.epoch or (now.epoch == MAX_EPOCH and not before.state.is_prepared):
        return ErrorCode.PRODUCER_FENCED
    return _RETRYING
