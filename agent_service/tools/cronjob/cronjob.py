"""The `cronjob` tool: scheduled work for the agent, once or repeatedly."""

import asyncio
import hashlib
from typing import Annotated, Literal

from msgspec.structs import replace
from pydantic import Field

from agent_service.config.toolsets import FOR_JOBS, NOTHING, known_toolset
from agent_service.records.jobs import JobChange, Jobs, JobView, SchedulerAway, SchedulerRefused
from agent_service.records.messages import Target
from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import CommandClass
from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.cronjob.lookup import FoundJob, look_up, shown_here
from agent_service.tools.cronjob.text import errors_of, listed, scheduled
from agent_service.tools.guards.approval import binding_of, check_allowed
from agent_service.tools.guards.commands import refusal
from agent_service.tools.guards.taint import Screen, must_ask

NO_CHAT = "scheduler"
"""Platform of turns that no chat started."""

_AWAY = (
    "The scheduler does not answer. It is unknown whether this was done, and no job runs until "
    "the scheduler is back. Tell the user, and check with action list before you try again."
)

_ELSEWHERE = (
    "Other people can read this chat, so only the jobs of this chat are shown. Tell the user to "
    "ask for the others in a private chat with you."
)

_MODES = {None: None, True: "only", False: "gate"}

Name = Annotated[str, Field(min_length=1, max_length=128)]


class CronjobArguments(ToolArguments):
    """Schedules work for you to do later or repeatedly, and shows and changes such jobs.

    Each run is a new conversation that knows nothing of this one, so put everything that it needs
    into the prompt. It cannot ask questions. Its last answer is delivered, unless it is [SILENT] or
    empty. create needs schedule and prompt; the other actions except list need job_id. run starts
    one run now.
    """

    action: Literal["create", "list", "update", "pause", "resume", "remove", "run"] = Field(
        description="What to do."
    )
    job_id: str = Field(default="", description="The job's id, as list shows it, or its name.")
    prompt: str | None = Field(default=None, description="What each run does.")
    schedule: str | None = Field(
        default=None,
        description=(
            "When it runs, such as: in 20 minutes; every 2h; every weekday at 9:00; 0 9 * * "
            "mon-fri; 2027-03-01T09:00. Times are in the user's time zone."
        ),
    )
    name: str | None = Field(default=None, max_length=200, description="A name for people.")
    repeat: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Number of runs after which the job ends; 0 is no limit.",
    )
    deliver: str | None = Field(
        default=None,
        description=(
            "Where the output goes: origin, this chat (default); local, nowhere; or targets of "
            "send_message, separated by commas."
        ),
    )
    skills: list[Name] | None = Field(
        default=None, max_length=20, description="Skills that each run loads and follows."
    )
    model: str | None = Field(default=None, description="Model for its runs, if not the default.")
    script: str | None = Field(
        default=None,
        description=(
            "Bash script that runs first in the sandbox; its output follows the prompt. If it "
            'prints nothing, or {"wakeAgent": false} as its last line, no model is called and '
            "nobody is notified. If it fails, the run fails."
        ),
    )
    no_agent: bool | None = Field(
        default=None, description="Run only the script, and deliver its output."
    )
    context_from: list[Name] | None = Field(
        default=None,
        max_length=10,
        description="Ids of jobs whose latest output is added to the prompt.",
    )
    enabled_toolsets: list[Name] | None = Field(
        default=None,
        max_length=50,
        description=(
            "The only toolsets of its runs; default is all but cron, messaging and clarify."
        ),
    )
    workdir: str | None = Field(
        default=None, description="Absolute path of a folder on the executor to work in."
    )


class Cronjob(UsualTool[CronjobArguments]):
    """Creates, shows and changes the profile's jobs."""

    name = "cronjob"
    toolset = "cron"
    arguments = CronjobArguments

    def __init__(self, jobs: Jobs, screen: Screen, *, asks: bool = True) -> None:
        """`screen` marks output of jobs as data; `asks` requires approval in tainted sessions."""
        self._jobs = jobs
        self._screen = screen
        self._asks = asks
        self._classifier = CommandClassifier()

    def effect(self, arguments: CronjobArguments) -> Effect:
        """Job and run ids derive from the call's key, so repeated calls are recognized."""
        return Effect.PURE if arguments.action == "list" else Effect.KEYED

    def writes(self, arguments: CronjobArguments) -> frozenset[str]:
        return frozenset() if arguments.action == "list" else frozenset({"jobs"})

    async def run(self, arguments: CronjobArguments, context: ToolContext) -> ToolResult:
        try:
            if arguments.action == "list":
                return await self._list(context)
            wish = self._wish(arguments)
            if self._asks and await must_ask(context):
                shown = arguments.model_dump_json(exclude_unset=True)
                await check_allowed(self.name, shown, binding_of(arguments), context)
            if arguments.action == "create":
                return await self._create(wish, context)
            return await self._change(arguments, wish, context)
        except SchedulerRefused as error:
            raise ToolFailed(str(error)) from error
        except SchedulerAway as error:
            raise ToolFailed(_AWAY) from error

    async def _list(self, context: ToolContext) -> ToolResult:
        known = await self._jobs.list(context.caller.profile)
        jobs = shown_here(known, context)
        # Loading time zones reads from disk.
        text = await asyncio.to_thread(listed, jobs)
        if len(jobs) < len(known):
            text += f"\n\n{_ELSEWHERE}"
        if errors := errors_of(jobs):
            shown = await self._screen.fenced(errors, "runs of jobs", context)
            return replace(shown, text=f"{text}\n\n{shown.text}")
        return ToolResult(text)

    async def _create(self, wish: JobChange, context: ToolContext) -> ToolResult:
        origin = context.caller.origin
        has_chat = Target.of_origin(origin) is not None and origin["platform"] != NO_CHAT
        job = await self._jobs.create(
            context.caller.profile,
            f"job_{_digest(context.key)[:12]}",
            limited(wish, frozenset(context.caller.options.toolsets)),
            origin if has_chat else None,
            context.caller.options.denied_commands,
        )
        return ToolResult(await asyncio.to_thread(scheduled, job, "is scheduled"))

    async def _change(
        self, arguments: CronjobArguments, wish: JobChange, context: ToolContext
    ) -> ToolResult:
        profile, action = context.caller.profile, arguments.action
        if action == "update" and wish == JobChange():
            raise RetryWithHint("Say what to change, such as schedule or prompt.")
        job = await look_up(self._jobs, arguments.job_id, context)
        match action:
            case "run":
                await self._jobs.run(profile, job.id, f"run_{_digest(context.key)[:26]}")
                text = "runs now; its output is delivered when it is done"
                return ToolResult(f"“{job.name}” ({job.id}) {text}.")
            case "remove":
                await self._jobs.take(profile, job.id, action)
                return ToolResult(f"“{job.name}” ({job.id}) is removed.")
            case _:
                changed = await self._changed(job, action, wish, context)
        done = "is changed" if action == "update" else f"is {changed.state}"
        return ToolResult(await asyncio.to_thread(scheduled, changed, done))

    async def _changed(
        self, job: FoundJob, action: str, wish: JobChange, context: ToolContext
    ) -> JobView:
        """The job after it was changed, paused or resumed, by this call or an earlier attempt."""
        profile, options = context.caller.profile, context.caller.options
        now = await self._jobs.get(profile, job.id)
        if job.is_again and now.changed_at != job.changed_at:
            # A schedule counts from when it is set, so it must not be set twice.
            return now
        if action == "update":
            within = limited(wish, frozenset(options.toolsets), now.wish)
            request_id = f"upd_{_digest(context.key)[:26]}"
            return await self._jobs.update(
                profile, job.id, within, request_id, options.denied_commands
            )
        await self._jobs.take(profile, job.id, action)
        return await self._jobs.get(profile, job.id)

    def _wish(self, arguments: CronjobArguments) -> JobChange:
        creates, script = arguments.action == "create", arguments.script
        if creates and not (arguments.schedule or "").strip():
            raise RetryWithHint("create needs a schedule, such as every weekday at 9:00.")
        if creates and arguments.no_agent and not (script or "").strip():
            raise RetryWithHint("no_agent needs a script.")
        if creates and not arguments.no_agent and not (arguments.prompt or "").strip():
            raise RetryWithHint("create needs a prompt with everything that a run has to know.")
        if script:
            verdict = self._classifier.classify(script)
            if verdict.kind is CommandClass.HARDLINE:
                raise ToolFailed(refusal(verdict))
        return JobChange(
            prompt=arguments.prompt or None,
            schedule=arguments.schedule or None,
            name=arguments.name or None,
            max_runs=arguments.repeat,
            deliver_to=None if arguments.deliver is None else _targets(arguments.deliver),
            skills=_all(arguments.skills),
            model=arguments.model,
            script=script,
            script_mode=_MODES[arguments.no_agent] if script or not creates else None,
            context_job_ids=_all(arguments.context_from),
            toolsets=_toolsets_of(arguments.enabled_toolsets),
            workdir=arguments.workdir,
        )


def _targets(deliver: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, deliver.split(","))))


def _all(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _toolsets_of(names: list[str] | None) -> tuple[str, ...] | None:
    try:
        return None if names is None else tuple(map(known_toolset, names))
    except ValueError as error:
        raise RetryWithHint(f"{error}.") from None


def limited(wish: JobChange, most: frozenset[str], before: JobChange | None = None) -> JobChange:
    """The change with its toolsets limited to `most`; RetryWithHint if it asks for more.

    `before` is the job that it changes; a job without toolsets gets all.
    """
    if not most:
        return wish
    given = wish.toolsets
    if given is None and before is not None:
        given = before.toolsets or FOR_JOBS
    wanted = set(given or ()) - set(NOTHING)
    if wish.script:
        wanted.add("terminal")
    if wish.skills:
        wanted.add("skills")
    if beyond := sorted(wanted - most):
        raise RetryWithHint(
            f"This conversation cannot give a job {', '.join(beyond)}. It can give only its own "
            f"toolsets: {', '.join(sorted(most))}."
        )
    # An empty list would mean all toolsets.
    return replace(wish, toolsets=given or tuple(n for n in FOR_JOBS if n in most) or NOTHING)
