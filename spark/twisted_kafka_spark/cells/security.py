"""The security of a log: rejected principals with their requests, failed logins by address, and clients that speak plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from twisted_kafka_spark import without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.records.connections import address
from twisted_kafka_spark.records.frame import Coded

if TYPE_CHECKING:
    from twisted_kafka_spark.records.frame import Frame, Numbers

TOPIC_REFUSAL = "TOPIC_AUTHORIZATION_FAILED"
GROUP_REFUSAL = "GROUP_AUTHORIZATION_FAILED"
OTHER_REFUSALS = (
    GROUP_REFUSAL,
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
)
"""Errors of a principal that an authorizer refuses something else than a topic."""
LOGIN_ERRORS = ("SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE")
"""Errors of a client that could not log in. It has no principal yet, so its address says who it is."""
PLAIN_PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT")


def failed_logins(frame: Frame) -> Numbers:
    """Return the indexes of the frame's records that are failed logins."""
    is_failure = np.array([value in LOGIN_ERRORS for value in frame.error.values.to_pylist()], np.bool_)
    found: Numbers = np.flatnonzero(is_failure[frame.error.codes])
    return found


def addresses(frame: Frame) -> Coded:
    """Return the client's address of each record; null if it is not known."""
    encoded = frame.identities.column("connection").combine_chunks().dictionary_encode(null_encoding="encode")
    texts = pa.array([address(each) for each in encoded.dictionary.to_pylist()], pa.string())
    known = texts.dictionary_encode(null_encoding="encode")
    codes = known.indices.to_numpy().astype(np.int64)[encoded.indices.to_numpy()]
    return Coded(codes[frame.identity], known.dictionary)
