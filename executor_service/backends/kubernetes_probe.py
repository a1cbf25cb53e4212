"""Whether a cluster lets this executor make boxes, and what they are held to."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from executor_service.backends.base import (
    BoxSpec,
    Capabilities,
    Enforcement,
    Limits,
    LimitSupport,
    WorkspacePlace,
)
from executor_service.backends.kubernetes_api import RAW, Cluster
from executor_service.backends.kubernetes_json import Json
from executor_service.backends.kubernetes_pod import (
    BOX,
    NAME,
    OWNER,
    POOL,
    SELECTED,
    KubernetesOptions,
    Objects,
    label,
    manifest,
)
from executor_service.backends.kubernetes_policies import holes
from executor_service.errors import BackendError, BackendUnavailable, EngineRefused

_ROLE = "apply the Role of docs/backends/kubernetes.md"
_POLICY = "apply the NetworkPolicy of docs/backends/kubernetes.md"
_NEEDED: Sequence[tuple[str, str, str, str]] = (
    ("", "pods", "", "create"),
    ("", "pods", "", "get"),
    ("", "pods", "", "list"),
    ("", "pods", "", "watch"),
    ("", "pods", "", "delete"),
    ("", "pods", "exec", "create"),
    ("", "pods", "exec", "get"),
    ("", "configmaps", "", "create"),
    ("", "configmaps", "", "get"),
    ("", "secrets", "", "create"),
    ("", "secrets", "", "list"),
    ("networking.k8s.io", "networkpolicies", "", "list"),
)
"""API group, resource, subresource and verb."""
_VARYING = frozenset({BOX, POOL})


async def probe(cluster: Cluster, options: KubernetesOptions, owner: str) -> Capabilities:
    """Ask the cluster; a "no" says what to do about it."""
    try:
        version = await cluster.call(lambda api: api.version.get_code(**RAW))
        await asyncio.gather(*(_check_right(cluster, options, *right) for right in _NEEDED))
        await _check_policies(cluster, options, owner)
        await _check_admission(cluster, options, owner)
        reason = _describe(version, await cluster.host(), options)
    except EngineRefused as error:
        return _capabilities(f"the cluster refuses: {error}", options, available=False)
    except BackendError as error:
        return _capabilities(str(error), options, available=False)
    return _capabilities(reason, options, available=True)


async def _check_right(
    cluster: Cluster, options: KubernetesOptions, group: str, resource: str, sub: str, verb: str
) -> None:
    asked = {
        "namespace": options.namespace,
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": sub,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await cluster.call(
        lambda api: api.authorization.create_self_subject_access_review(review, **RAW)
    )
    if not answer["status"].get("allowed"):
        what = "/".join(filter(None, (resource, sub)))
        raise BackendUnavailable(
            f"the executor may not {verb} {what} in the namespace {options.namespace}: {_ROLE}"
        )


async def _check_policies(cluster: Cluster, options: KubernetesOptions, owner: str) -> None:
    found = await cluster.call(
        lambda api: api.networking.list_namespaced_network_policy(options.namespace, **RAW)
    )
    labels = {**SELECTED, OWNER: label(owner)}
    missing = next(holes(found["items"], labels, _VARYING), "")
    if missing:
        raise BackendUnavailable(
            f"sandboxes in the namespace {options.namespace} would have a network: {missing}: "
            f"{_POLICY}"
        )


async def _check_admission(cluster: Cluster, options: KubernetesOptions, owner: str) -> None:
    """Have a box judged by the cluster that is not made."""
    spec = BoxSpec("probe", owner, "probe", Path("/probe"), Limits())
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "name": options.release, "uid": "none"}
    wanted = manifest(spec, options, Objects(nobody, "none"), "")
    del wanted["metadata"]["ownerReferences"]
    try:
        await cluster.call(
            lambda api: api.core.create_namespaced_pod(
                options.namespace, wanted, dry_run="All", **RAW
            )
        )
    except EngineRefused as error:
        raise BackendUnavailable(f"the cluster admits no sandbox: {error}") from error


def _capabilities(reason: str, options: KubernetesOptions, *, available: bool) -> Capabilities:
    def held(how: Enforcement = Enforcement.ENFORCED, *, where: bool = True) -> Enforcement:
        return how if available and where else Enforcement.NONE

    in_box = not options.workspace_claim
    return Capabilities(
        name=NAME,
        available=available,
        reason=reason,
        isolation=options.isolation,
        limits=LimitSupport(
            memory=held(),
            cpu=held(),
            pids=held(where=options.node_limits_pids or not options.host_users),
            tmp=held(),
            # A kubelet looks at it and evicts the pod.
            workspace=held(Enforcement.WATCHED, where=in_box),
        ),
        workspaces=WorkspacePlace.IN_BOX if in_box else WorkspacePlace.THERE,
    )


def _describe(version: Json, host: str, options: KubernetesOptions) -> str:
    """One line on how boxes run here, with what an operator should know."""
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
