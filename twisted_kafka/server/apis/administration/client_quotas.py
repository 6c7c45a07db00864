"""DescribeClientQuotas and AlterClientQuotas v0-1 (KIP-546, KIP-612)."""

from typing import Final

from twisted_kafka.network.requests.kafka_principal import USER, KafkaPrincipal
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import InvalidRequestError, KafkaError, error_of
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntryData,
    EntityData,
    ValueData,
)
from twisted_kafka.quota.client_quotas import ClientQuotas, Component, Match, Operation, ensure_filter_type
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api

_KINDS: Final = {"user": ResourceKind.USER, "client-id": ResourceKind.CLIENT_ID, "ip": ResourceKind.IP}


class ClientQuotaApis:
    """Describes and changes client quotas."""

    def __init__(self, quotas: ClientQuotas, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._quotas = quotas

    @api(DescribeClientQuotasRequest, DescribeClientQuotasResponse, versions=(0, 1))
    def describe_client_quotas(self, context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
        """Return the quotas of all entities that match the filter."""
        for each in request.components:
            _note(context, each.entity_type, each.match)
        self._authorization.require_cluster(context, AclOperation.DESCRIBE_CONFIGS)
        entries = [
            DescribeClientQuotasResponseEntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in self._quotas.describe(_components(request), strict=request.strict)
        ]
        return DescribeClientQuotasResponse(error_code=0, entries=entries)

    @api(AlterClientQuotasRequest, AlterClientQuotasResponse, versions=(0, 1))
    def alter_client_quotas(self, context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        """Change the quotas of each entity; an error of one does not affect the others."""
        for entry in request.entries:
            for part in entry.entity:
                _note(context, part.entity_type, part.entity_name)
        self._authorization.require_cluster(context, AclOperation.ALTER_CONFIGS)
        entries = []
        for entry in request.entries:
            # If a type is named twice, the last name counts, as in Kafka.
            entity = {each.entity_type: each.entity_name for each in entry.entity}
            named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
            result = AlterClientQuotasResponseEntryData(error_code=0, error_message=None, entity=named)
            try:
                operations = [Operation(op.key, None if op.remove else op.value) for op in entry.ops]
                self._quotas.alter(list(entity.items()), operations, validate_only=request.validate_only)
            except KafkaError as error:
                result.error_code, result.error_message = error_of(error), str(error)
                context.note_error(result.error_code)
            entries.append(result)
        return AlterClientQuotasResponse(entries=entries)


def _note(context: RequestContext, entity_type: str, name: str | None) -> None:
    kind = _KINDS.get(entity_type)
    if kind is not None:
        context.note_resource(kind, str(KafkaPrincipal(USER, name)) if name and kind is ResourceKind.USER else name)


def _components(request: DescribeClientQuotasRequest) -> dict[str, Component]:
    components: dict[str, Component] = {}
    for each in request.components:
        ensure_filter_type(each.entity_type)
        if each.entity_type in components:
            raise InvalidRequestError(f"Duplicate entity type in the filter: {each.entity_type}")
        try:
            match = Match(each.match_type)
        except ValueError:
            raise InvalidRequestError(f"Unknown match type {each.match_type}") from None
        components[each.entity_type] = Component(match, each.match)
    return components
