"""CreateDelegationToken v0-3, RenewDelegationToken v0-2, ExpireDelegationToken v0-2, DescribeDelegationToken v0-3 (KIP-48).

CreateDelegationToken v3 can be for another owner, and DescribeDelegationToken v3 says who asked for a token (KIP-373).
"""

from collections.abc import Callable
from typing import Final

from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, USER, KafkaPrincipal
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import DelegationTokenDisabledError, ErrorCode, KafkaError, error_of
from twisted_kafka.protocol.messages.administration.tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.security.delegation_tokens import DelegationToken, DelegationTokenManager, is_among
from twisted_kafka.server.authorization import IAuthorization
from twisted_kafka.server.dispatch import api

NO_TIME: Final = -1
_UNAUTHENTICATED: Final = "PLAINTEXT"


class DelegationTokenApis:
    """Answers for a broker with tokens, and for one without."""

    def __init__(self, tokens: DelegationTokenManager | None, authorization: IAuthorization) -> None:
        self._tokens = tokens
        self._authorization = authorization

    @api(CreateDelegationTokenRequest, CreateDelegationTokenResponse, versions=(0, 3))
    def create_delegation_token(
        self, context: RequestContext, request: CreateDelegationTokenRequest
    ) -> CreateDelegationTokenResponse:
        """Create a token for the client, or for another owner if it may."""
        requester = context.principal
        owner = requester
        if request.owner_principal_name:
            owner = KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)
        context.note_resource(ResourceKind.USER, str(owner))
        response = CreateDelegationTokenResponse(
            principal_type=owner.principal_type,
            principal_name=owner.name,
            issue_timestamp_ms=NO_TIME,
            expiry_timestamp_ms=NO_TIME,
            max_timestamp_ms=NO_TIME,
        )
        if context.api_version >= 3:
            response.token_requester_principal_type, response.token_requester_principal_name = requester[:2]
        renewers = [KafkaPrincipal(each.principal_type, each.principal_name) for each in request.renewers]
        response.error_code = self._refusal_of_create(context, owner, renewers)
        if response.error_code == ErrorCode.NONE:
            try:
                token = self._manager().create(owner, requester, renewers, request.max_lifetime_ms)
            except KafkaError as error:
                response.error_code = error_of(error)
            else:
                response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
                response.max_timestamp_ms, response.token_id, response.hmac = token.max_ms, token.token_id, token.hmac
        context.note_error(response.error_code)
        return response

    @api(RenewDelegationTokenRequest, RenewDelegationTokenResponse, versions=(0, 2))
    def renew_delegation_token(self, context: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
        """Let a token be valid for longer."""
        error, expires_ms = self._changed(
            context, lambda: self._manager().renew(context.principal, bytes(request.hmac), request.renew_period_ms)
        )
        return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)

    @api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, versions=(0, 2))
    def expire_delegation_token(
        self, context: RequestContext, request: ExpireDelegationTokenRequest
    ) -> ExpireDelegationTokenResponse:
        """Let a token expire earlier, or remove it."""
        error, expires_ms = self._changed(
            context, lambda: self._manager().expire(context.principal, bytes(request.hmac), request.expiry_time_period_ms)
        )
        return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)

    @api(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, versions=(0, 3))
    def describe_delegation_token(
        self, context: RequestContext, request: DescribeDelegationTokenRequest
    ) -> DescribeDelegationTokenResponse:
        """Return the tokens, with their secrets, that the client may see: its own, and others if it is authorized."""
        for each in request.owners or ():
            context.note_resource(ResourceKind.USER, str(KafkaPrincipal(each.principal_type, each.principal_name)))
        if not may_ask_for_tokens(context):
            context.note_error(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
            return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        tokens = self._manager().tokens()
        if request.owners is not None:
            owners = {(each.principal_type, each.principal_name) for each in request.owners}
            tokens = [token for token in tokens if token.concerns(owners)]
        is_asked_for = request.owners is not None
        return DescribeDelegationTokenResponse(
            tokens=[_described(token, context.api_version) for token in tokens if self._may_see(context, token, is_asked_for)]
        )

    def _manager(self) -> DelegationTokenManager:
        if self._tokens is None:
            raise DelegationTokenDisabledError
        return self._tokens

    def _refusal_of_create(self, context: RequestContext, owner: KafkaPrincipal, renewers: list[KafkaPrincipal]) -> ErrorCode:
        if not may_ask_for_tokens(context):
            return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        if not is_among(owner, (context.principal,)) and not self._authorization.is_allowed(
            context, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)
        ):
            return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        if any(each.principal_type != USER for each in renewers):
            return ErrorCode.INVALID_PRINCIPAL_TYPE
        return ErrorCode.NONE

    def _may_see(self, context: RequestContext, token: DelegationToken, is_asked_for: bool) -> bool:
        """Tokens that are left out are not logged as denied, but the owners that the client has named: there may be very many."""
        may = self._authorization.is_allowed
        return (
            token.concerns({context.principal[:2]})
            or may(context, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, logs_denied=False)
            or may(context, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), logs_denied=is_asked_for)
        )

    def _changed(self, context: RequestContext, change: Callable[[], int]) -> tuple[ErrorCode, int]:
        """Return the error and the time at which the token expires."""
        error, expires_ms = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
        if may_ask_for_tokens(context):
            try:
                error, expires_ms = ErrorCode.NONE, change()
            except KafkaError as refusal:
                error = error_of(refusal)
        context.note_error(error)
        return error, expires_ms


def may_ask_for_tokens(context: RequestContext) -> bool:
    """Return whether the client is known well enough: by more than a token, and not on a listener that authenticates nobody."""
    connection = context.connection
    if connection.principal.token_authenticated or connection.security_protocol == _UNAUTHENTICATED:
        return False
    return connection.security_protocol != "SSL" or not is_among(connection.principal, (ANONYMOUS,))


def _described(token: DelegationToken, version: int) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner.principal_type,
        principal_name=token.owner.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token.hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.principal_type, principal_name=each.name) for each in token.renewers
        ],
    )
    if version >= 3:
        described.token_requester_principal_type, described.token_requester_principal_name = token.requester[:2]
    return described
