"""Sandboxes, leases and what backends can do."""

from executor_service.backends.base import Capabilities, Enforcement, Isolation, WorkspacePlace
from executor_service.claims.leases import Grant, Launch, Wish
from executor_service.claims.sandbox import Sandbox
from executor_service.convert import networks
from executor_service.convert.common import duration, profile_of, seconds, timestamp
from executor_service.pools.templates import Template
from executor_service.records import Lifetimes, SandboxState
from hermes.executor.v1 import sandbox_pb2
from services.validation import check_id

_DEFAULT_WAIT_S = 60.0
_LONGEST_WAIT_S = 300.0
_LONGEST_LIFE_S = 30 * 24 * 3600.0

ISOLATION = {
    Isolation.NONE: sandbox_pb2.ISOLATION_LEVEL_NONE,
    Isolation.NAMESPACE: sandbox_pb2.ISOLATION_LEVEL_NAMESPACE,
    Isolation.USERSPACE_KERNEL: sandbox_pb2.ISOLATION_LEVEL_USERSPACE_KERNEL,
    Isolation.MICROVM: sandbox_pb2.ISOLATION_LEVEL_MICROVM,
}
_WISHES = {wire: isolation for isolation, wire in ISOLATION.items()}
_ENFORCEMENT = {
    Enforcement.NONE: sandbox_pb2.LIMIT_ENFORCEMENT_NONE,
    Enforcement.WATCHED: sandbox_pb2.LIMIT_ENFORCEMENT_WATCHED,
    Enforcement.ENFORCED: sandbox_pb2.LIMIT_ENFORCEMENT_KERNEL,
}
_LAUNCH = {
    Launch.WARM: sandbox_pb2.LAUNCH_KIND_WARM,
    Launch.COLD: sandbox_pb2.LAUNCH_KIND_COLD,
    Launch.RESUMED: sandbox_pb2.LAUNCH_KIND_RESUMED,
}
_STATE = {
    SandboxState.READY: sandbox_pb2.SANDBOX_STATE_READY,
    SandboxState.RELEASED: sandbox_pb2.SANDBOX_STATE_RELEASED,
    SandboxState.LOST: sandbox_pb2.SANDBOX_STATE_LOST,
}


def wish(request: sandbox_pb2.AcquireSandboxRequest) -> Wish:
    """What a request asks for; fails with InvalidArgument."""
    profile = profile_of(request.profile)
    for field, value in (
        ("request_id", request.request_id),
        ("profile", profile),
        ("session_id", request.session_id),
    ):
        check_id(field, value)
    return Wish(
        request_id=request.request_id,
        profile=profile,
        session_id=request.session_id,
        template=request.template,
        # Isolation that does not exist yet is stronger than any that does.
        min_isolation=_WISHES.get(request.min_isolation, Isolation.MICROVM)
        if request.min_isolation
        else Isolation.NONE,
        workdir=request.workdir,
        workspace_id=request.workspace_id,
        earlier_workspace_id=request.earlier_workspace_id,
        lifetimes=Lifetimes(
            idle_s=seconds("idle_ttl", request.idle_ttl, 0, _LONGEST_LIFE_S),
            total_s=seconds("max_ttl", request.max_ttl, 0, _LONGEST_LIFE_S),
        ),
        wait_s=seconds("wait", request.wait, _DEFAULT_WAIT_S, _LONGEST_WAIT_S),
        network=networks.policy("network_policy", request.network_policy)
        if request.network_policy.mode
        else None,
    )


def acquired(grant: Grant, endpoint: str) -> sandbox_pb2.AcquireSandboxResponse:
    """A sandbox and its lease."""
    claim = grant.sandbox.claim
    return sandbox_pb2.AcquireSandboxResponse(
        sandbox=sandbox(grant.sandbox),
        lease=sandbox_pb2.Lease(
            sandbox_id=claim.sandbox_id,
            token=grant.token,
            epoch=claim.epoch,
            expires_in=duration(grant.sandbox.expires_in_s),
        ),
        launch=_LAUNCH[grant.launch],
        endpoint=endpoint,
    )


def sandbox(found: Sandbox) -> sandbox_pb2.Sandbox:
    """A sandbox as it is now."""
    claim = found.claim
    policy = claim.network and networks.policy_to_wire(claim.network)
    return sandbox_pb2.Sandbox(
        sandbox_id=claim.sandbox_id,
        session_id=claim.session_id,
        backend=claim.backend,
        isolation=ISOLATION[Isolation(claim.isolation)],
        state=_STATE[found.state],
        create_time=timestamp(claim.claimed_at),
        running_command_count=len(found.running),
        template=claim.template,
        profile=claim.profile,
        expires_in=duration(found.expires_in_s),
        workspace_id=claim.workspace_id,
        network_policy=policy,
    )


def of_template(template: Template) -> sandbox_pb2.BackendCapabilities:
    """What a backend can do, and what a template makes of it."""
    wire = capabilities(template.capabilities, template.name, template.choice.reason)
    if wire.network_modes:
        wire.network_mode = networks.MODES[template.network.mode]
    return wire


def capabilities(
    found: Capabilities, template: str = "", choice_reason: str = ""
) -> sandbox_pb2.BackendCapabilities:
    """What a backend can do, of which a template's sandboxes are made."""
    return sandbox_pb2.BackendCapabilities(
        name=found.name,
        available=found.available,
        detail=found.reason,
        isolation=ISOLATION[found.isolation],
        pty=found.pty,
        memory_limit=_ENFORCEMENT[found.limits.memory],
        cpu_limit=_ENFORCEMENT[found.limits.cpu],
        pids_limit=_ENFORCEMENT[found.limits.pids],
        disk_limit=_ENFORCEMENT[found.limits.workspace],
        choice_reason=choice_reason,
        template=template,
        keeps_workspace=found.workspaces is not WorkspacePlace.IN_BOX,
        account=found.account,
        network_modes=[networks.MODES[mode] for mode in found.network_policies],
        snapshot_kinds=[sandbox_pb2.SNAPSHOT_KIND_WORKSPACE_COPY] * found.copies_workspaces,
    )


def refused(template: str, why: str) -> sandbox_pb2.BackendCapabilities:
    """A template whose backend cannot be used now."""
    return sandbox_pb2.BackendCapabilities(available=False, detail=why, template=template)
