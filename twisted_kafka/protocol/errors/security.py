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


class IllegalSaslStateError(KafkaError, code=ErrorCode.ILLEGAL_SASL_STATE):
    """The request is illegal, not valid in the current state of the SASL exchange."""


class TransactionalIdAuthorizationError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
    """Transactional id authorization failed: the principal is not authorized to use it."""


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


class UnsupportedByAuthenticationError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED):
    """Delegation token requests are not allowed on connections authenticated in this way."""


class DelegationTokenAuthorizationError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED):
    """Delegation token authorization failed: the principal is not authorized to access it."""


class DelegationTokenExpiredError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED):
    """The delegation token has expired."""


class InvalidPrincipalTypeError(KafkaError, code=ErrorCode.INVALID_PRINCIPAL_TYPE):
    """The principal type is not supported."""


class UnacceptableCredentialError(KafkaError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL):
    """The credential does not meet the requirements."""


class PrincipalDeserializationError(KafkaError, code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE):
    """The principal of the forwarded request cannot be deserialized."""
