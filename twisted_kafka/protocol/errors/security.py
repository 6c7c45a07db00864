"""Errors of authentication and authorization."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError


class TopicAuthorizationError(KafkaError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """The principal may not do this with the topic."""


class GroupAuthorizationError(KafkaError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """The principal may not do this with the group."""


class ClusterAuthorizationError(KafkaError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """The principal may not do this with the cluster."""


class UnsupportedSaslMechanismError(KafkaError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    """The broker has not got this SASL mechanism."""


class IllegalSaslStateError(KafkaError, code=ErrorCode.ILLEGAL_SASL_STATE):
    """The request does not belong at this place of the SASL exchange."""


class TransactionalIdAuthorizationError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
    """The principal may not use this transactional id."""


class SecurityDisabledError(KafkaError, code=ErrorCode.SECURITY_DISABLED):
    """Security is switched off on this broker."""


class SaslAuthenticationError(KafkaError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    """Authentication failed."""


class DelegationTokenDisabledError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
    """Delegation tokens are switched off on this broker."""


class DelegationTokenNotFoundError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
    """There is no such delegation token."""


class DelegationTokenOwnerMismatchError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
    """The principal neither owns nor may renew this delegation token."""


class UnsupportedByAuthenticationError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED):
    """Delegation tokens cannot be had over a connection authenticated this way."""


class DelegationTokenAuthorizationError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED):
    """The principal may not do this with the delegation token."""


class DelegationTokenExpiredError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED):
    """The delegation token has expired."""


class InvalidPrincipalTypeError(KafkaError, code=ErrorCode.INVALID_PRINCIPAL_TYPE):
    """The broker does not know this type of principal."""


class UnacceptableCredentialError(KafkaError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL):
    """The credential does not fulfil the rules."""


class PrincipalDeserializationError(KafkaError, code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE):
    """The principal of the forwarded request cannot be read."""
