"""Who may do what: the one account that there is, by the rules of its Role."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

from executor_service.backends.kubernetes.api import Json
from tests.fakes.kubernetes.errors import Refused

_VERBS = {"POST": "create", "DELETE": "delete"}


@dataclass
class Rights:
    """Of one account, in one namespace."""

    namespace: str
    rules: Sequence[Json]
    token: str
    used: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    """Verb, API group and resource of all that was allowed."""

    def allows(self, verb: str, group: str, resource: str, name: str = "") -> bool:
        """Whether the Role has it; a subresource stands behind a slash."""
        return any(
            verb in rule["verbs"]
            and group in rule["apiGroups"]
            and resource in rule["resources"]
            and name in rule.get("resourceNames", [name])
            for rule in self.rules
        )

    def check(self, request: web.Request, group: str) -> None:
        """Raises Refused where the account may not."""
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refused(401, "Unauthorized")
        info = request.match_info
        if "namespace" not in info:
            # The version, what resources there are, one's own rights: anybody may ask for that.
            return
        resource, name = info.get("resource", "pods"), info.get("name", "")
        reading = "get" if name else "watch" if request.query.get("watch") else "list"
        verbs = [_VERBS.get(request.method, reading)]
        if request.path.endswith("/exec"):
            # Newer servers want the second one for WebSockets, too.
            resource, verbs = f"{resource}/exec", ["get", "create"]
        for verb in verbs:
            known = info["namespace"] == self.namespace
            if not (known and self.allows(verb, group, resource, name)):
                raise Refused(
                    403,
                    f'{resource} is forbidden: User "hermes" cannot {verb} resource "{resource}" '
                    f'in the namespace "{info["namespace"]}"',
                )
            self.used.add((verb, group, resource))
