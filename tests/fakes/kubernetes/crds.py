"""What the custom resources of agent-sandbox take: the fields that their definitions know.

A server prunes unknown fields with a warning; here they are refused, as nobody reads warnings.
"""

import re
from collections.abc import Iterator

from executor_service.backends.kubernetes.reading import Json, part
from tests.fakes.kubernetes.errors import Refused

EXTENSIONS = "extensions.agents.x-k8s.io"
CORE = "agents.x-k8s.io"
VERSION = "v1beta1"
KINDS = {
    "sandboxclaims": "SandboxClaim",
    "sandboxwarmpools": "SandboxWarmPool",
    "sandboxtemplates": "SandboxTemplate",
}
_METADATA: Json = {"labels": {}, "annotations": {}}
_BLUEPRINT: Json = {
    "podTemplate": {"metadata": _METADATA, "spec": {}},
    "volumeClaimTemplates": {},
    "service": {},
}
_FIELDS: dict[str, Json] = {
    "SandboxClaim": {
        "warmPoolRef": {"name": {}},
        "lifecycle": {"shutdownTime": {}, "ttlSecondsAfterFinished": {}, "shutdownPolicy": {}},
        "additionalPodMetadata": _METADATA,
        "env": {},
        "volumeClaimTemplates": {},
    },
    "SandboxWarmPool": {
        "replicas": {},
        "sandboxTemplateRef": {"name": {}},
        "updateStrategy": {"type": {}},
    },
    "SandboxTemplate": {
        **_BLUEPRINT,
        "networkPolicy": {"ingress": {}, "egress": {}},
        "networkPolicyManagement": {},
        "envVarsInjectionPolicy": {},
        "volumeClaimTemplatesPolicy": {},
    },
}
_REQUIRED = {
    "SandboxClaim": (("warmPoolRef", "name"),),
    "SandboxWarmPool": (("sandboxTemplateRef", "name"),),
    "SandboxTemplate": (("podTemplate", "spec"),),
}
_POLICIES = {"Delete", "DeleteForeground", "Retain"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def check(thing: Json) -> None:
    """Raises Refused as the API's validation would."""
    kind, name = thing["kind"], thing["metadata"]["name"]
    problems = [*_unknown(thing.get("spec") or {}, _FIELDS[kind], "spec")]
    for *outer, last in _REQUIRED[kind]:
        if last not in part(thing, "spec", *outer):
            problems.append(f"spec.{'.'.join((*outer, last))}: Required value")
    lifecycle = part(thing, "spec", "lifecycle")
    if lifecycle.get("shutdownPolicy", "Retain") not in _POLICIES:
        problems.append("spec.lifecycle.shutdownPolicy: Unsupported value")
    if not _TIME.fullmatch(lifecycle.get("shutdownTime", "2026-01-01T00:00:00Z")):
        problems.append("spec.lifecycle.shutdownTime: Invalid value: must be a date-time")
    if thing["apiVersion"] != f"{EXTENSIONS}/{VERSION}":
        problems.append("apiVersion: Invalid value")
    if problems:
        raise Refused(422, f'{kind}.{EXTENSIONS} "{name}" is invalid: {"; ".join(problems)}')


def _unknown(thing: Json, known: Json, path: str) -> Iterator[str]:
    for field, value in thing.items():
        if field not in known:
            yield f"{path}.{field}: unknown field"
        elif known[field]:
            yield from _unknown(value, known[field], f"{path}.{field}")
