"""DescribeUserScramCredentials and AlterUserScramCredentials v0 (KIP-554)."""

from collections.abc import Callable, Iterable

from twisted_kafka.admin.scram_credentials import Deletion, ScramCredentialAdmin, Upsertion
from twisted_kafka.network.requests.kafka_principal import USER, KafkaPrincipal
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import KafkaError, NotControllerError, error_of
from twisted_kafka.protocol.messages.administration.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import IAuthorization
from twisted_kafka.server.dispatch import api


class ScramCredentialApis:
    """The SCRAM credentials of users."""

    def __init__(self, credentials: ScramCredentialAdmin, is_controller: Callable[[], bool], authorization: IAuthorization) -> None:
        """``is_controller`` returns whether this broker is the controller: only there credentials may be altered, as in Kafka."""
        self._credentials = credentials
        self._is_controller = is_controller
        self._authorization = authorization

    @api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, versions=(0, 0))
    def describe_user_scram_credentials(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        """Return mechanisms and iterations, never secrets."""
        _note_users(context, (each.name for each in request.users or ()))
        self._authorization.require_cluster(context, AclOperation.DESCRIBE)
        names = None if request.users is None else [user.name for user in request.users]
        results = []
        for user, found in self._credentials.describe(names):
            result = DescribeUserScramCredentialsResult(user=user, error_message=None)
            if isinstance(found, KafkaError):
                result.error_code, result.error_message = error_of(found), str(found)
                context.note_error(result.error_code)
            else:
                result.credential_infos = [CredentialInfo(mechanism=number, iterations=count) for number, count in found]
            results.append(result)
        return DescribeUserScramCredentialsResponse(error_message=None, results=results)

    @api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, versions=(0, 0))
    def alter_user_scram_credentials(
        self, context: RequestContext, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        """Set and delete credentials; an error of one user does not affect the others."""
        _note_users(context, [each.name for each in request.upsertions] + [each.name for each in request.deletions])
        if not self._is_controller():
            raise NotControllerError("")
        self._authorization.require_cluster(context, AclOperation.ALTER)
        upsertions = [
            Upsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
            for each in request.upsertions
        ]
        deletions = [Deletion(each.name, each.mechanism) for each in request.deletions]
        results = []
        for user, error in self._credentials.alter(upsertions, deletions).items():
            result = AlterUserScramCredentialsResult(user=user, error_message=None)
            if error is not None:
                result.error_code, result.error_message = error_of(error), str(error)
                context.note_error(result.error_code)
            results.append(result)
        return AlterUserScramCredentialsResponse(results=results)


def _note_users(context: RequestContext, names: Iterable[str]) -> None:
    for name in names:
        context.note_resource(ResourceKind.USER, str(KafkaPrincipal(USER, name)))
