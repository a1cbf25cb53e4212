"""Clients of the services that the scheduler calls."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar

import grpc
import grpc.aio
from msgspec import Struct

from hermes.agent.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    curation_pb2,
    curation_pb2_grpc,
    turn_pb2,
    turn_pb2_grpc,
    usage_pb2,
    usage_pb2_grpc,
)
from hermes.common.v1 import content_pb2, origin_pb2
from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc
from scheduler_service.clients.batches import TurnReport, outcome_of
from scheduler_service.clients.calls import CALL_S, answer_unless, await_answer, explain, watch
from scheduler_service.config import CuratorConfig
from scheduler_service.curation import Curation, Report
from scheduler_service.errors import CallRefused
from scheduler_service.jobs import Claim, Job, Origin
from scheduler_service.options import LOCAL, ORIGIN
from services.errors import FailedPrecondition, HermesError, NotFound, StaleEpoch, details_of
from services.rpc.channels import Channels
from services.rpc.messages import message_of, record_of

_CHECK_S = 3.0
_CHANGE_S = 120.0
# Longer than the agent waits for its model.
_PLAN_S = 660.0
SKILLS = "skills"
"""The toolset that loads skills."""

_CURATION_ERRORS: Mapping[grpc.StatusCode, Callable[[str], HermesError]] = {
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.ABORTED: StaleEpoch,
}

_T = TypeVar("_T")


class Output(Struct, frozen=True):
    """The last output of another job, marked as untrusted data."""

    name: str
    text: str


class Ask(Struct, frozen=True):
    """What a run asks the agent."""

    instructions: str
    parts: Sequence[str | Output]
    denied: Sequence[str] = ()
    """Slash commands that the author of the words may not use."""


class AgentClient:
    """Client of the agent service for the turns of runs; raises Unavailable and CallRefused."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    @cached_property
    def _turns(self) -> turn_pb2_grpc.TurnServiceStub:
        return turn_pb2_grpc.TurnServiceStub(self._channels.to("agent"))

    @cached_property
    def _catalog(self) -> catalog_pb2_grpc.CatalogServiceStub:
        return catalog_pb2_grpc.CatalogServiceStub(self._channels.to("agent"))

    @cached_property
    def _usage(self) -> usage_pb2_grpc.UsageServiceStub:
        return usage_pb2_grpc.UsageServiceStub(self._channels.to("agent"))

    async def scan(self, texts: Sequence[str]) -> Sequence[tuple[str, ...]]:
        """Return the kinds of attacks that each text looks like."""
        request = catalog_pb2.ScanTextsRequest(texts=texts)
        answer = await await_answer(self._catalog.ScanTexts(request, timeout=CALL_S))
        return [
            tuple(dict.fromkeys(threat.family for threat in found.threats))
            for found in answer.findings
        ]

    async def limit(self, job: Job, *, keeps_set: bool = False) -> None:
        """Apply the job's budget, or clear it; `keeps_set` keeps a budget that somebody set."""
        options = job.spec.options
        amount = usage_pb2.BudgetAmount(
            micro_usd=options.budget_micro_usd, tokens=options.budget_tokens
        )
        request = usage_pb2.SetBudgetRequest(
            profile=job.profile,
            scope=usage_pb2.BUDGET_SCOPE_JOB,
            scope_id=job.id,
            limit=amount if any(options.budget) else None,
            keeps_set=keeps_set,
        )
        await await_answer(self._usage.SetBudget(request, timeout=CALL_S))

    async def start(self, claim: Claim, ask: Ask) -> None:
        """Start the attempt's turn in its own session; idempotent."""
        job, options = claim.job, claim.job.spec.options
        origin = job.spec.origin or Origin(platform="scheduler", chat_id=job.id)
        skills = {SKILLS} if options.toolsets and options.skills else set[str]()
        asked: dict[str, Any] = {"unattended": job.spec.unattended}
        if options.script.strip():
            mode = "only" if options.script_only else "gate"
            asked |= {"script.text": options.script, "script.mode": mode}
        request = message_of(
            asked,
            turn_pb2.StartTurnRequest,
            turn_id=claim.turn_id,
            profile=job.profile,
            session_id=claim.session_id,
            parts=map(_part, ask.parts),
            origin=message_of(origin, origin_pb2.Origin, trust=origin_pb2.TRUST_SERVICE),
            kind=turn_pb2.TURN_KIND_JOB,
            busy_mode=turn_pb2.BUSY_MODE_QUEUE,
            system_message=ask.instructions,
            model=options.model,
            toolsets=sorted({*options.toolsets, *skills}),
            workdir=options.workdir,
            sandbox_template=job.spec.sandbox_template,
            skills=options.skills,
            denied_commands=ask.denied,
        )
        # The id is ours: we started the turn earlier, with an older job or other outputs.
        starting = self._turns.StartTurn(request, timeout=CALL_S)
        await answer_unless(grpc.StatusCode.ALREADY_EXISTS, starting)

    async def stop(self, profile: str, turn_id: str) -> bool:
        """Stop a turn; return whether there was an open one."""
        request = turn_pb2.InterruptTurnRequest(turn_id=turn_id, profile=profile)
        stopping = self._turns.InterruptTurn(request, timeout=CALL_S)
        return await answer_unless(grpc.StatusCode.NOT_FOUND, stopping) is not None

    async def result(self, claim: Claim) -> TurnReport:
        """Watch the attempt's turn, and return what became of it."""
        events = await watch(self._turns, claim.job.profile, claim.turn_id)
        return outcome_of(events[-1].turn_finished)


class GatewayClient:
    """Client of the gateway service for the output of runs; raises Unavailable and CallRefused."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    @cached_property
    def _deliveries(self) -> delivery_pb2_grpc.DeliveryServiceStub:
        return delivery_pb2_grpc.DeliveryServiceStub(self._channels.to("gateway"))

    async def deliver(
        self, profile: str, delivery_id: str, target: str, origin: Origin | None, text: str
    ) -> None:
        """Deliver a text to the chats of a target; idempotent."""
        request = _delivery(profile, delivery_id, target, origin, text)
        # The id is ours alone, so a conflict means that we delivered before the job was changed.
        delivering = self._deliveries.Deliver(request, timeout=CALL_S)
        await answer_unless(grpc.StatusCode.ALREADY_EXISTS, delivering)

    async def find_unreachable(
        self, profile: str, targets: Iterable[str], origin: Origin | None
    ) -> Sequence[str]:
        """Return why nothing can be delivered to some targets; none while the gateway is away."""
        problems: list[str] = []
        for target in targets:
            if target in (ORIGIN, LOCAL):
                continue
            request = _delivery(profile, "check", target, origin, "check")
            request.validate_only = True
            try:
                await await_answer(self._deliveries.Deliver(request, timeout=_CHECK_S))
            except CallRefused as error:
                problems.append(f"cannot deliver to {target}: {error.message}")
            except HermesError:
                break
        return problems


def _delivery(
    profile: str, delivery_id: str, target: str, origin: Origin | None, text: str
) -> delivery_pb2.DeliverRequest:
    trust, asked = origin_pb2.TRUST_SERVICE, None
    if origin is not None:
        asked = message_of(origin, origin_pb2.Origin, trust=trust)
    return delivery_pb2.DeliverRequest(
        delivery_id=delivery_id, profile=profile, target=target, origin=asked, text=text
    )


class CurationClient:
    """Client of the agent service for skill libraries; only Unavailable is worth a retry."""

    def __init__(self, channels: Channels, config: CuratorConfig) -> None:
        self._channels = channels
        self._ages = curation_pb2.SkillAges()
        self._ages.stale_after.FromTimedelta(timedelta(days=config.stale_after_days))
        self._ages.archive_after.FromTimedelta(timedelta(days=config.archive_after_days))

    @cached_property
    def _stub(self) -> curation_pb2_grpc.CurationServiceStub:
        return curation_pb2_grpc.CurationServiceStub(self._channels.to("agent"))

    async def curations(self, profile: str = "") -> Sequence[Curation]:
        """Return the curation state of one profile, or of all."""
        request = curation_pb2.ListCurationsRequest(profile=profile)
        answer = await _curating(self._stub.ListCurations(request, timeout=CALL_S))
        return [record_of(each, Curation) for each in answer.curations]

    async def update(
        self, profile: str, *, is_paused: bool | None = None, begins: bool = False
    ) -> None:
        """Pause or resume curation, or record the first check."""
        request = curation_pb2.UpdateCurationRequest(
            profile=profile, is_paused=is_paused, begins=begins
        )
        await _curating(self._stub.UpdateCuration(request, timeout=CALL_S))

    async def plan(self, profile: str, job_skills: Collection[str]) -> str:
        """Return the model's consolidation plan; empty if there is nothing to do."""
        request = curation_pb2.PlanConsolidationRequest(
            profile=profile, ages=self._ages, job_skills=job_skills
        )
        return (await _curating(self._stub.PlanConsolidation(request, timeout=_PLAN_S))).plan

    async def apply(
        self, claim: Claim, job_skills: Collection[str], plan: str, plan_failure: str
    ) -> Report:
        """Apply a plan to a library as far as the rules allow, once for each run."""
        request = curation_pb2.ApplyCurationRequest(
            profile=claim.job.profile,
            run_id=claim.run_id,
            epoch=claim.lease.epoch,
            ages=self._ages,
            job_skills=job_skills,
            plan=plan,
            plan_failure=plan_failure,
            dry_run=claim.dry_run,
        )
        answer = await _curating(self._stub.ApplyCuration(request, timeout=_CHANGE_S))
        return record_of(answer.report, Report)

    async def restore(self, profile: str, run_id: str, backup_id: str) -> Report:
        request = curation_pb2.RestoreSkillsRequest(
            profile=profile, run_id=run_id, backup_id=backup_id
        )
        answer = await _curating(self._stub.RestoreSkills(request, timeout=_CHANGE_S))
        return record_of(answer.report, Report)

    async def reports(self, profile: str, most: int) -> Sequence[Report]:
        """Return the reports of earlier runs, newest first."""
        request = curation_pb2.ListCurationReportsRequest(profile=profile, page_size=most)
        answer = await _curating(self._stub.ListCurationReports(request, timeout=CALL_S))
        return [record_of(each, Report) for each in answer.reports]


async def _curating(call: Awaitable[_T]) -> _T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        told = _CURATION_ERRORS.get(error.code())
        raise (told(details_of(error).message) if told else explain(error)) from error


def _part(part: str | Output) -> content_pb2.MessagePart:
    if isinstance(part, str):
        return content_pb2.MessagePart(text=part)
    quotation = content_pb2.Quotation(
        kind=content_pb2.QUOTATION_KIND_OUTPUT, text=part.text, author=part.name
    )
    return content_pb2.MessagePart(quotation=quotation)
