"""SaslHandshake v0-1: v1 wraps the tokens in requests. SaslAuthenticate v0-2: v1 session lifetime, v2 flexible.

A client gets here while it authenticates itself (``KafkaApis`` sees to that). Otherwise it gets an error.
"""

from twisted_kafka.network.requests.authenticator import AuthenticationInterruptedError
from twisted_kafka.network.requests.request import AUTHENTICATED, AUTHENTICATION_FAILED
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, SaslAuthenticationError
from twisted_kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from twisted_kafka.server.dispatch import CLOSE_CONNECTION, AuthenticationStep, Outcome, api


class SaslApis:
    """The steps of an authentication."""

    @api(SaslHandshakeRequest, SaslHandshakeResponse, versions=(0, 1))
    def sasl_handshake(self, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse | AuthenticationStep:
        """Choose the mechanism."""
        authenticator = context.connection.authenticator
        if authenticator is None or authenticator.is_authenticated:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        choice = authenticator.choose(request.mechanism, context.api_version)
        response = SaslHandshakeResponse(mechanisms=list(choice.enabled_mechanisms))
        if choice.is_enabled:
            return response
        response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return AuthenticationStep(response, AUTHENTICATION_FAILED)

    @api(SaslAuthenticateRequest, SaslAuthenticateResponse, versions=(0, 2))
    def sasl_authenticate(self, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | Outcome:
        """Take a token of the client."""
        authenticator = context.connection.authenticator
        if authenticator is None or authenticator.is_authenticated:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
            )
        try:
            answer = authenticator.evaluate(bytes(request.auth_bytes), context.api_version)
        except SaslAuthenticationError as error:
            refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error))
            return AuthenticationStep(refusal, AUTHENTICATION_FAILED)
        except AuthenticationInterruptedError:
            context.note_error(ErrorCode.SASL_AUTHENTICATION_FAILED)
            return CLOSE_CONNECTION
        response = SaslAuthenticateResponse(auth_bytes=answer.token or b"", session_lifetime_ms=answer.session_lifetime_ms)
        return AuthenticationStep(response, AUTHENTICATED) if answer.is_complete else response
