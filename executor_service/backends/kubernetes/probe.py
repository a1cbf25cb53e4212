"""Whether a cluster lets this executor make boxes, and what they are held to."""

from collections.abc import Awaitable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

from msgspec.structs import replace

from executor_service.backends.base import (
    GIB,
    BoxSpec,
    Capabilities,
    Enforcement,
    Limits,
    LimitSupport,
    WorkspacePlace,
)
from executor_service.backends.kubernetes.api import RAW, Cluster
from executor_service.backends.kubernetes.claims import (
    CLAIMS,
    GROUP,
    TEMPLATE_LABEL,
    TEMPLATES,
    VERSION,
    WARM_POOLS,
)
from executor_service.backends.kubernetes.pod import (
    BOX,
    NAME,
    POOL,
    KubernetesOptions,
    Objects,
    labels_of,
    manifest,
)
from executor_service.backends.kubernetes.policies import holes
from executor_service.backends.kubernetes.reading import Json
from executor_service.backends.kubernetes.walls import gaps
from executor_service.errors import BackendError, BackendUnavailable, EngineRefused
from services.task_groups import all_of

_ROLE = "apply the Role of docs/backends/kubernetes.md"
_POLICY = "apply the NetworkPolicy of docs/backends/kubernetes.md"
_TEMPLATE = "see the SandboxTemplate of docs/backends/kubernetes.md"
Right = tuple[str, str, str, str]
"""API group, resource, subresource and verb."""
ALWAYS: Sequence[Right] = (
    ("", "pods", "", "get"),
    ("", "pods", "", "list"),
    ("", "pods", "exec", "create"),
    ("", "pods", "exec", "get"),
    ("", "configmaps", "", "create"),
    ("", "configmaps", "", "get"),
    ("", "secrets", "", "create"),
    ("", "secrets", "", "get"),
    ("networking.k8s.io", "networkpolicies", "", "list"),
)
TO_MAKE_PODS: Sequence[Right] = (("", "pods", "", "create"), ("", "pods", "", "delete"))
TO_CLAIM_PODS: Sequence[Right] = (
    ("", "configmaps", "", "update"),
    *((GROUP, CLAIMS, "", verb) for verb in ("create", "get", "list", "delete")),
    (GROUP, WARM_POOLS, "", "get"),
    (GROUP, TEMPLATES, "", "get"),
)
_ANY_SIZE = Limits(1024 * GIB, 1024, 2**22, 256 * GIB, 1024 * GIB)
_VARYING = frozenset({BOX, POOL, TEMPLATE_LABEL})


async def probe(cluster: Cluster, options: KubernetesOptions, owner: str) -> Capabilities:
    """Ask the cluster; a "no" says what to do about it."""
    spec = BoxSpec("probe", owner, "probe", Path("/probe"))
    try:
        version = await cluster.call(lambda api: api.version.get_code(**RAW))
        more = TO_CLAIM_PODS if options.warm_pool else TO_MAKE_PODS
        await _check_rights(cluster, options, (*ALWAYS, *more))
        if options.warm_pool:
            await _check_warm_pool(cluster, options, spec)
        else:
            await _check_policies(cluster, options, labels_of(owner, "", ""))
            await _check_admission(cluster, options, spec)
        reason = _describe(version, await cluster.host(), options)
    except EngineRefused as error:
        return _capabilities(f"the cluster refuses: {error}", options, available=False)
    except BackendError as error:
        return _capabilities(str(error), options, available=False)
    return _capabilities(reason, options, available=True)


async def _check_rights(
    cluster: Cluster, options: KubernetesOptions, rights: Sequence[Right]
) -> None:
    """All are asked for at the same time; the first that is missing is told."""
    answers = await all_of(_has_right(cluster, options, right) for right in rights)
    for (_, resource, sub, verb), is_given in zip(rights, answers, strict=True):
        if not is_given:
            what = "/".join(filter(None, (resource, sub)))
            raise BackendUnavailable(
                f"the executor may not {verb} {what} in the namespace {options.namespace}: {_ROLE}"
            )


async def _has_right(cluster: Cluster, options: KubernetesOptions, right: Right) -> bool:
    group, resource, sub, verb = right
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
    return bool(answer["status"].get("allowed"))


async def _check_policies(
    cluster: Cluster, options: KubernetesOptions, labels: Mapping[str, str]
) -> None:
    found = await cluster.call(
        lambda api: api.networking.list_namespaced_network_policy(options.namespace, **RAW)
    )
    missing = next(holes(found["items"], labels, _VARYING), "")
    if missing:
        raise BackendUnavailable(
            f"sandboxes in the namespace {options.namespace} would have a network: {missing}: "
            f"{_POLICY}"
        )


async def _check_admission(cluster: Cluster, options: KubernetesOptions, spec: BoxSpec) -> None:
    """Have a box judged by the cluster that is not made."""
    wanted = manifest(spec, options, Objects({}, "none"), "")
    del wanted["metadata"]["ownerReferences"]
    try:
        await cluster.call(
            lambda api: api.core.create_namespaced_pod(
                options.namespace, wanted, dry_run="All", **RAW
            )
        )
    except EngineRefused as error:
        raise BackendUnavailable(f"the cluster admits no sandbox: {error}") from error


async def _check_warm_pool(cluster: Cluster, options: KubernetesOptions, spec: BoxSpec) -> None:
    """Look at what claimed boxes will be made from."""
    if options.workspace_claim:
        raise BackendUnavailable(
            "sandboxes of a warm pool have their own workspaces: set only one of "
            "executor.kubernetes.warm_pool and executor.kubernetes.workspace_claim"
        )
    await _found(
        cluster.call(lambda api: api.custom.get_api_resources(GROUP, VERSION, **RAW)),
        f"the cluster does not know {GROUP}/{VERSION}: install agent-sandbox with its extensions, "
        "or unset executor.kubernetes.warm_pool",
    )
    pool = await _custom(cluster, options, WARM_POOLS, options.warm_pool)
    template = await _custom(
        cluster, options, TEMPLATES, pool["spec"]["sandboxTemplateRef"]["name"]
    )
    pod = template["spec"]["podTemplate"]
    # How large a box may be is known when it is claimed.
    for gap in gaps(pod, replace(spec, limits=_ANY_SIZE), options):
        name = template["metadata"]["name"]
        raise BackendUnavailable(f"in the SandboxTemplate {name}, {gap}: {_TEMPLATE}")
    # The controller's, with a value that only it knows.
    hashed = dict.fromkeys(_VARYING, "")
    await _check_policies(cluster, options, {**hashed, **pod["metadata"]["labels"]})


async def _custom(cluster: Cluster, options: KubernetesOptions, plural: str, name: str) -> Json:
    place = (GROUP, VERSION, options.namespace, plural, name)
    return await _found(
        cluster.call(lambda api: api.custom.get_namespaced_custom_object(*place, **RAW)),
        f"the namespace {options.namespace} has no {plural} {name}: {_TEMPLATE}",
    )


async def _found(asking: Awaitable[Json], otherwise: str) -> Json:
    try:
        return await asking
    except EngineRefused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise BackendUnavailable(otherwise) from error


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
    if options.warm_pool:
        notes.append(f"claimed from the warm pool {options.warm_pool}")
    if not options.host_users:
        notes.append("user namespaces of their own")
    if options.host_users and not options.node_limits_pids:
        notes.append("processes are not limited unless the nodes do it (podPidsLimit)")
    return "; ".join(notes)
