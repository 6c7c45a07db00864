"""Users, ACLs and quotas, and the question whether a user may do something."""

from typing import Final

from twisted_kafka.console.actions.acls import OPERATIONS, RESOURCES
from twisted_kafka.console.queries.access import acls, may, quotas, users
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.web.call import BadFormError, Call, Page
from twisted_kafka.console.web.pages.lists import asked, twice
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType

_OPERATIONS: Final = {title: each for title, each in OPERATIONS.items() if each != AclOperation.ALL}


def show_users(call: Call) -> Page:
    """Show the users with SCRAM passwords."""
    rows = asked(call, ("name",))
    return Page("users.html", {"title": "Access", "page": users(call.session, rows), "sort": rows.sort})


def show_acls(call: Call) -> Page:
    """Show access control entries."""
    rows = asked(call, ("name", "principal"))
    has_authorizer = call.context.settings.has_authorizer
    page = acls(call.session, rows) if has_authorizer else None
    return Page("acls.html", {"title": "Access", "page": page, "sort": rows.sort})


def show_quotas(call: Call) -> Page:
    """Show quotas."""
    rows = asked(call, ("name", "value"))
    return Page("quotas.html", {"title": "Access", "page": quotas(call.session, rows), "sort": rows.sort})


def show_check(call: Call) -> Page:
    """Decide whether a user may do something, and say why."""
    user, name = call.text("user"), call.text("name")
    kind, operation = call.query.get("kind", "Topic"), call.query.get("operation", "Read")
    decision = None
    if user:
        if call.context.settings.has_authorizer:
            acls(call.session, Asked(page_size=1))  # raises for viewers without the right to see the rules
        if kind not in RESOURCES or operation not in _OPERATIONS:
            raise BadFormError("There is no such resource or operation.")
        if not name and RESOURCES[kind] != ResourceType.CLUSTER:
            raise BadFormError(f"Which {kind}? Enter its name.")
        principal = user if ":" in user else f"User:{user}"
        resource = RESOURCES[kind], name
        known = call.context.settings.authorization
        decision = may(call.session, principal, _OPERATIONS[operation], resource, call.text("host"), known)
    values = {"title": "Access", "decision": decision, "name": name, "kind": kind, "operation": operation}
    return Page("check.html", {**values, "asked_user": user, "kinds": twice(RESOURCES), "operations": twice(_OPERATIONS)})
