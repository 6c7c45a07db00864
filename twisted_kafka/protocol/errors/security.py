"""Errors of authentication and authorization."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError


class TopicAuthorizationError(KafkaError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """Topic authorization failed: the principal is not authorized to access the topic."""


class GroupAuthorizationError(KafkaError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """Group authorization failed: the principal is not authorized to access the group."""


class ClusterAuthorizationError(KafkaError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """Cluster authorization failed: the principal is not authorized for this operation."""


class UnsupportedSaslMechanismError(KafkaError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    """The broker does not support this SASL mechanism."""


class SecurityDisabledError(KafkaError, code=ErrorCode.SECURITY_DISABLED):
    """Security features are disabled on this broker."""


class SaslAuthenticationError(KafkaError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    """Authentication failed."""


class DelegationTokenDisabledError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
    """Delegation tokens are disabled on this broker."""


class DelegationTokenNotFoundError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
    """The delegation token was not found."""


class DelegationTokenOwnerMismatchError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
    """The principal is not a valid owner or renewer of the delegation token."""


class DelegationTokenExpiredError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED):
    """The delegation token has expired."""


class UnacceptableCredentialError(KafkaError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL):
    """The credential does not meet the requirements."""
