"""SandboxService."""

from typing import Any

import grpc.aio

from executor_service.backends.base import Capabilities, WorkspacePlace
from executor_service.metrics import ExecutorMetrics
from executor_service.records.network_policy import NetworkMode, NetworkPolicy, Rule
from executor_service.records.sandboxes import AcquireRequest, Isolation, Lifetimes
from executor_service.sandboxes.leases import Grant, Launch, Leases
from executor_service.sandboxes.sandbox import Sandbox
from executor_service.sandboxes.templates import Template, Templates
from executor_service.sandboxes.workspace_manager import WorkspaceManager
from executor_service.servicer.fields import duration, profile_of, proof, seconds, timestamp
from executor_service.workspaces.catalog import RemovalReason
from hermes.executor.v1 import network_pb2, sandbox_pb2, sandbox_pb2_grpc
from services.clock import Clock
from services.errors import HermesError, InvalidArgument, PermissionDenied
from services.rpc.auth import Identity, caller
from services.rpc.messages import enum_word, message_of
from services.validation import check_id

Context = grpc.aio.ServicerContext[Any, Any]
_DEFAULT_WAIT_S = 60.0
_LONGEST_WAIT_S = 300.0
_LONGEST_LIFE_S = 30 * 24 * 3600.0
_MOST_PORTS = 32


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    """Serves sandboxes and their leases."""

    def __init__(
        self,
        leases: Leases,
        templates: Templates,
        manager: WorkspaceManager,
        endpoint: str,
        clock: Clock,
        metrics: ExecutorMetrics,
    ) -> None:
        self._leases = leases
        self._templates = templates
        self._manager = manager
        self._endpoint = endpoint
        self._clock = clock
        self._metrics = metrics

    async def GetCapabilities(
        self, request: sandbox_pb2.GetCapabilitiesRequest, context: Context
    ) -> sandbox_pb2.GetCapabilitiesResponse:
        found = [_of_template(one) for one in self._templates]
        found += [
            sandbox_pb2.BackendCapabilities(available=False, detail=why, template=name)
            for name, why in self._templates.refused.items()
        ]
        others = self._templates.default.choice.others
        found += [_capabilities(other) for other in others]
        return sandbox_pb2.GetCapabilitiesResponse(
            backends=found,
            endpoint=self._endpoint,
            draining=self._templates.default.pool.stats.draining,
        )

    async def AcquireSandbox(
        self, request: sandbox_pb2.AcquireSandboxRequest, context: Context
    ) -> sandbox_pb2.AcquireSandboxResponse:
        wanted = _acquire_request(request)
        started = self._clock.monotonic()
        try:
            grant = await self._leases.acquire(wanted)
        except HermesError as error:
            self._observe(started, wanted.template, "", error.reason.lower())
            raise
        self._observe(started, grant.sandbox.claim.template, grant.launch, "ok")
        return _acquired(grant, self._endpoint)

    async def RenewLease(
        self, request: sandbox_pb2.RenewLeaseRequest, context: Context
    ) -> sandbox_pb2.RenewLeaseResponse:
        sandbox = self._leases.authorize(proof(request.lease, request.profile))
        sandbox.get_connection()
        return sandbox_pb2.RenewLeaseResponse(expires_in=duration(sandbox.expires_in_s))

    async def ReleaseSandbox(
        self, request: sandbox_pb2.ReleaseSandboxRequest, context: Context
    ) -> sandbox_pb2.ReleaseSandboxResponse:
        sandbox = self._leases.authorize(proof(request.lease, request.profile))
        await self._leases.release(sandbox)
        if request.deletes_workspace and (workspace_id := sandbox.claim.workspace_id):
            await self._manager.remove(workspace_id, RemovalReason.ASKED)
        return sandbox_pb2.ReleaseSandboxResponse()

    async def GetSandbox(
        self, request: sandbox_pb2.GetSandboxRequest, context: Context
    ) -> sandbox_pb2.GetSandboxResponse:
        found = self._leases.find(profile_of(request.profile), request.sandbox_id)
        found.check_settled()
        return sandbox_pb2.GetSandboxResponse(sandbox=_sandbox(found))

    async def ListSandboxes(
        self, request: sandbox_pb2.ListSandboxesRequest, context: Context
    ) -> sandbox_pb2.ListSandboxesResponse:
        """Lists a profile's sandboxes, or for an operator those of all."""
        if request.all_profiles and caller() is not Identity.OPERATOR:
            raise PermissionDenied("only an operator may list the sandboxes of all profiles")
        found = self._leases.living(None if request.all_profiles else profile_of(request.profile))
        return sandbox_pb2.ListSandboxesResponse(sandboxes=[_sandbox(one) for one in found])

    def _observe(self, started_s: float, template: str, launch: Launch | str, outcome: str) -> None:
        # Unknown template names must not become labels.
        names = {one.name: one.capabilities.name for one in self._templates}
        template = template or self._templates.default.name
        backend = names.get(template)
        labels = (backend or "", template if backend else "", str(launch), outcome)
        seconds = self._clock.monotonic() - started_s
        self._metrics.acquire_seconds.labels(*labels).observe(seconds)


def _acquire_request(request: sandbox_pb2.AcquireSandboxRequest) -> AcquireRequest:
    profile = profile_of(request.profile)
    for field, value in (
        ("request_id", request.request_id),
        ("profile", profile),
        ("session_id", request.session_id),
    ):
        check_id(field, value)
    return AcquireRequest(
        request_id=request.request_id,
        profile=profile,
        session_id=request.session_id,
        template=request.template,
        min_isolation=_isolation(request.min_isolation),
        workdir=request.workdir,
        workspace_id=request.workspace_id,
        earlier_workspace_id=request.earlier_workspace_id,
        lifetimes=Lifetimes(
            idle_s=seconds("idle_ttl", request.idle_ttl, 0, _LONGEST_LIFE_S),
            total_s=seconds("max_ttl", request.max_ttl, 0, _LONGEST_LIFE_S),
        ),
        wait_s=seconds("wait", request.wait, _DEFAULT_WAIT_S, _LONGEST_WAIT_S),
        network=_policy(request.network_policy) if request.network_policy.mode else None,
    )


def _isolation(level: sandbox_pb2.IsolationLevel.ValueType) -> Isolation:
    """The minimum isolation; an unknown level counts as the strongest."""
    word = enum_word(sandbox_pb2.IsolationLevel.DESCRIPTOR, level) or Isolation.NONE
    return Isolation(word) if word in tuple(Isolation) else Isolation.MICROVM


def _acquired(grant: Grant, endpoint: str) -> sandbox_pb2.AcquireSandboxResponse:
    claim = grant.sandbox.claim
    return sandbox_pb2.AcquireSandboxResponse(
        sandbox=_sandbox(grant.sandbox),
        lease=sandbox_pb2.Lease(
            sandbox_id=claim.sandbox_id,
            token=grant.token,
            epoch=claim.epoch,
            expires_in=duration(grant.sandbox.expires_in_s),
        ),
        launch=sandbox_pb2.LaunchKind.Value(f"LAUNCH_KIND_{grant.launch.upper()}"),
        endpoint=endpoint,
    )


def _sandbox(found: Sandbox) -> sandbox_pb2.Sandbox:
    claim = found.claim
    return message_of(
        claim,
        sandbox_pb2.Sandbox,
        state=found.state,
        create_time=timestamp(claim.claimed_at),
        running_command_count=len(found.running),
        expires_in=duration(found.expires_in_s),
        network_policy=claim.network,
    )


def _of_template(template: Template) -> sandbox_pb2.BackendCapabilities:
    found = template.capabilities
    return _capabilities(
        found,
        template=template.name,
        choice_reason=template.choice.reason,
        network_mode=template.network.mode if found.network_policies else None,
    )


def _capabilities(found: Capabilities, **more: str | None) -> sandbox_pb2.BackendCapabilities:
    return message_of(
        found,
        sandbox_pb2.BackendCapabilities,
        detail=found.reason,
        memory_limit=found.limits.memory,
        cpu_limit=found.limits.cpu,
        pids_limit=found.limits.pids,
        disk_limit=found.limits.workspace,
        keeps_workspace=found.workspaces is not WorkspacePlace.IN_BOX,
        network_modes=found.network_policies,
        snapshot_kinds=["workspace_copy"] * found.copies_workspaces,
        **more,
    )


def _policy(wire: network_pb2.NetworkPolicy) -> NetworkPolicy:
    mode = enum_word(network_pb2.NetworkMode.DESCRIPTOR, wire.mode)
    try:
        return NetworkPolicy(NetworkMode(mode), tuple(map(_rule, wire.rules)))
    except ValueError as error:
        fields = {"network_policy": str(error)}
        raise InvalidArgument(f"network_policy: {error}", fields=fields) from error


def _rule(wire: network_pb2.NetworkRule) -> Rule:
    if len(wire.ports) > _MOST_PORTS:
        raise ValueError(f"at most {_MOST_PORTS} ports of a host are taken")
    return Rule.create(wire.host, wire.ports)
