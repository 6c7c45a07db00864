"""An authorizer that remembers its questions."""

from collections.abc import Sequence
from typing import Any

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.security.authorizer.interfaces import Action


class Rights:
    """An authorizer with a list of what is allowed; it may remember what it has allowed."""

    def __init__(self, *allowed: tuple[AclOperation, ResourceType, str], remembering: bool = False) -> None:
        self.allowed = set(allowed)
        self.denials: list[Action] = []
        self.remembering = remembering
        self.authorize_by_resource_type = None

    def authorize(self, _: RequestContext, actions: Sequence[Action]) -> list[bool]:
        answers = [action[:3] in self.allowed for action in actions]
        self.denials += [action for action, allowed in zip(actions, answers, strict=True) if not allowed and action.logs_denied]
        return answers

    def remembers(self, _: RequestContext, *asked: Any) -> bool:
        return self.remembering and asked in self.allowed
