"""Whether a cluster lets this executor make boxes, and which limits it enforces."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from executor_service.backends.base import (
    BOX,
    POOL,
    BoxSpec,
    Capabilities,
    Enforcement,
    LimitSupport,
    WorkspacePlace,
)
from executor_service.backends.kubernetes.api import Cluster, Json, part, parts
from executor_service.backends.kubernetes.pod import (
    CONTAINER,
    NAME,
    Objects,
    manifest,
    pod_name,
    selected_labels,
)
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendError, BackendUnavailable, EngineRefused
from executor_service.records.sandboxes import Isolation

_ROLE = "apply the Role of docs/operators/backends/kubernetes.md"
_POLICY = "apply the NetworkPolicy of docs/operators/backends/kubernetes.md"
_VARYING = frozenset({BOX, POOL})
"""Labels whose values differ between boxes."""
_DIRECTIONS = {"Ingress": "ingress", "Egress": "egress"}


async def probe(cluster: Cluster, options: KubernetesConfig, owner: str) -> Capabilities:
    """Ask the cluster; a refusal says what to do about it."""
    spec = BoxSpec("probe", owner, "probe", Path("/probe"))
    try:
        version = await cluster.call("GET", "/version/")
        await _check_policies(cluster, options, selected_labels(owner, "", ""))
        await _check_admission(cluster, options, spec)
        await _check_exec(cluster, options, spec)
        reason = _describe(version, await cluster.host(), options)
    except EngineRefused as error:
        return _capabilities(f"the cluster refuses: {_advice(error)}", options, available=False)
    except BackendError as error:
        return _capabilities(str(error), options, available=False)
    return _capabilities(reason, options, available=True)


async def _check_policies(
    cluster: Cluster, options: KubernetesConfig, labels: Mapping[str, str]
) -> None:
    path = f"/apis/networking.k8s.io/v1/namespaces/{options.namespace}/networkpolicies"
    found = await cluster.call("GET", path)
    missing = next(holes(found["items"], labels), "")
    if missing:
        raise BackendUnavailable(
            f"sandboxes in the namespace {options.namespace} would have a network: {missing}: "
            f"{_POLICY}"
        )


async def _check_admission(cluster: Cluster, options: KubernetesConfig, spec: BoxSpec) -> None:
    wanted = manifest(spec, options, Objects({}, "none"))
    del wanted["metadata"]["ownerReferences"]
    try:
        path = f"/api/v1/namespaces/{options.namespace}/pods"
        await cluster.call("POST", path, wanted, dryRun="All")
    except EngineRefused as error:
        raise BackendUnavailable(f"the cluster admits no sandbox: {_advice(error)}") from error


async def _check_exec(cluster: Cluster, options: KubernetesConfig, spec: BoxSpec) -> None:
    """Check the right to run commands in pods: a cluster does so before it looks for the pod."""
    try:
        name = pod_name(spec.box_key)
        stream = await cluster.exec(options.namespace, name, CONTAINER, ("true",))
    except EngineRefused as error:
        if _lacks_right(error):
            raise
    else:
        await stream.close()


def _advice(error: EngineRefused) -> str:
    """The error, with what to do if a right is missing."""
    return f"{error}: {_ROLE}" if _lacks_right(error) else str(error)


def _lacks_right(error: EngineRefused) -> bool:
    """Whether it is the answer of an authorizer, not of a quota or of admission."""
    return " cannot " in str(error)


def _capabilities(reason: str, options: KubernetesConfig, *, available: bool) -> Capabilities:
    def held(how: Enforcement = Enforcement.ENFORCED, *, where: bool = True) -> Enforcement:
        return how if available and where else Enforcement.NONE

    in_box = not options.workspace_claim
    return Capabilities(
        name=NAME,
        available=available,
        reason=reason,
        isolation=Isolation(options.isolation),
        limits=LimitSupport(
            memory=held(),
            cpu=held(),
            pids=held(where=options.node_limits_pids or not options.host_users),
            tmp=held(),
            # A kubelet checks it and evicts the pod.
            workspace=held(Enforcement.WATCHED, where=in_box),
        ),
        workspaces=WorkspacePlace.IN_BOX if in_box else WorkspacePlace.THERE,
    )


def _describe(version: Json, host: str, options: KubernetesConfig) -> str:
    """Describe in one line how boxes run here, with hints for operators."""
    notes = [
        f"Kubernetes {version['gitVersion']} at {host}",
        f"namespace {options.namespace}",
        f"runtime class {options.runtime_class or 'of the nodes'}",
    ]
    if not options.host_users:
        notes.append("user namespaces of their own")
    if options.host_users and not options.node_limits_pids:
        notes.append("processes are not limited unless the nodes do it (podPidsLimit)")
    return "; ".join(notes)


def holes(policies: Iterable[Json], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each gap in the policies that should cut boxes off the network.

    Rules of several policies add up: no policy can forbid what another allows.
    """
    policies = list(policies)
    for direction, field in _DIRECTIONS.items():
        denies = [
            policy
            for policy in policies
            if direction in _types(policy) and _selects(policy, labels, unsure=False)
        ]
        if not denies:
            yield f"no policy denies {field} to the pods of sandboxes"
        for policy in policies:
            may_select = _selects(policy, labels, unsure=True)
            if may_select and direction in _types(policy) and policy["spec"].get(field):
                yield f"the policy {policy['metadata']['name']} allows them {field}"


def _types(policy: Json) -> list[str]:
    declared = policy["spec"].get("policyTypes")
    if declared:
        return declared
    return ["Ingress", "Egress"] if policy["spec"].get("egress") else ["Ingress"]


def _selects(policy: Json, labels: Mapping[str, str], *, unsure: bool) -> bool:
    """Whether it selects every box, or, with unsure, may select one."""
    wanted: list[Json] = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in part(policy, "spec", "podSelector", "matchLabels").items()
    ]
    wanted += parts(policy, "spec", "podSelector", "matchExpressions")
    return all(
        unsure if each["key"] in _VARYING else _matches(each, labels.get(each["key"]))
        for each in wanted
    )


def _matches(expression: Json, value: str | None) -> bool:
    values = expression.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }.get(expression["operator"], False)
