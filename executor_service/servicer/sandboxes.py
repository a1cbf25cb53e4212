"""SandboxService."""

from typing import Any

import grpc.aio

from executor_service.claims.leases import Launch, Leases
from executor_service.convert import networks
from executor_service.convert import sandboxes as convert
from executor_service.convert.common import duration, profile_of, proof
from executor_service.metrics import ExecutorMetrics
from executor_service.pools.templates import Templates
from hermes.executor.v1 import sandbox_pb2, sandbox_pb2_grpc
from services.auth import Identity, caller
from services.clock import Clock
from services.errors import HermesError, PermissionDenied

Context = grpc.aio.ServicerContext[Any, Any]


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    """Serves sandboxes and their leases."""

    def __init__(
        self,
        leases: Leases,
        templates: Templates,
        endpoint: str,
        clock: Clock,
        metrics: ExecutorMetrics,
    ) -> None:
        self._leases = leases
        self._templates = templates
        self._endpoint = endpoint
        self._clock = clock
        self._metrics = metrics

    async def GetCapabilities(
        self, request: sandbox_pb2.GetCapabilitiesRequest, context: Context
    ) -> sandbox_pb2.GetCapabilitiesResponse:
        """Says what the backends can do."""
        found = [convert.of_template(one) for one in self._templates]
        found += [convert.refused(name, why) for name, why in self._templates.refused.items()]
        others = self._templates.default.choice.others
        found += [convert.capabilities(other) for other in others]
        return sandbox_pb2.GetCapabilitiesResponse(
            backends=found,
            endpoint=self._endpoint,
            draining=self._templates.default.pool.stats.draining,
        )

    async def AcquireSandbox(
        self, request: sandbox_pb2.AcquireSandboxRequest, context: Context
    ) -> sandbox_pb2.AcquireSandboxResponse:
        """Gives a session its sandbox."""
        wish = convert.wish(request)
        started = self._clock.monotonic()
        try:
            grant = await self._leases.acquire(wish)
        except HermesError as error:
            self._observe(started, wish.template, "", error.reason.lower())
            raise
        self._observe(started, grant.sandbox.claim.template, grant.launch, "ok")
        return convert.acquired(grant, self._endpoint)

    async def RenewLease(
        self, request: sandbox_pb2.RenewLeaseRequest, context: Context
    ) -> sandbox_pb2.RenewLeaseResponse:
        """Prolongs a lease."""
        sandbox = self._leases.prove(proof(request.lease, request.profile))
        sandbox.box()
        return sandbox_pb2.RenewLeaseResponse(expires_in=duration(sandbox.expires_in_s))

    async def ReleaseSandbox(
        self, request: sandbox_pb2.ReleaseSandboxRequest, context: Context
    ) -> sandbox_pb2.ReleaseSandboxResponse:
        """Ends a lease and its box."""
        await self._leases.release(self._leases.prove(proof(request.lease, request.profile)))
        return sandbox_pb2.ReleaseSandboxResponse()

    async def SetNetworkPolicy(
        self, request: sandbox_pb2.SetNetworkPolicyRequest, context: Context
    ) -> sandbox_pb2.SetNetworkPolicyResponse:
        """Replaces what a sandbox may reach."""
        wanted = networks.policy("policy", request.policy)
        sandbox = self._leases.prove(proof(request.lease, request.profile))
        applied = await self._leases.set_network(sandbox, wanted)
        return sandbox_pb2.SetNetworkPolicyResponse(generation=applied.generation)

    async def GetSandbox(
        self, request: sandbox_pb2.GetSandboxRequest, context: Context
    ) -> sandbox_pb2.GetSandboxResponse:
        """Returns a sandbox."""
        found = self._leases.find(profile_of(request.profile), request.sandbox_id)
        found.check_settled()
        return sandbox_pb2.GetSandboxResponse(sandbox=convert.sandbox(found))

    async def ListSandboxes(
        self, request: sandbox_pb2.ListSandboxesRequest, context: Context
    ) -> sandbox_pb2.ListSandboxesResponse:
        """Lists a profile's sandboxes, or for an operator those of all."""
        if request.all_profiles and caller() is not Identity.OPERATOR:
            raise PermissionDenied("only an operator may list the sandboxes of all profiles")
        found = self._leases.living(None if request.all_profiles else profile_of(request.profile))
        return sandbox_pb2.ListSandboxesResponse(sandboxes=[convert.sandbox(one) for one in found])

    def _observe(self, started_s: float, template: str, launch: Launch | str, outcome: str) -> None:
        # Callers' inventions are no labels.
        names = {one.name: one.capabilities.name for one in self._templates}
        template = template or self._templates.default.name
        backend = names.get(template)
        labels = (backend or "", template if backend else "", str(launch), outcome)
        seconds = self._clock.monotonic() - started_s
        self._metrics.acquire_seconds.labels(*labels).observe(seconds)
