"""Builds the agent's tools and the other parts of turns."""

from collections.abc import Sequence
from importlib.util import find_spec

from pydantic import SecretStr

from agent_service.assembly.core import Core
from agent_service.assembly.memory import listed_provider
from agent_service.clients.browsers import BrowserProcesses, BrowserSandboxes
from agent_service.clients.deliveries import GatewayDeliveries
from agent_service.clients.environments import SchedulerEnvironments
from agent_service.clients.executors import Executors
from agent_service.clients.jobs import SchedulerJobs
from agent_service.clients.uploads import StoredFiles
from agent_service.config import AgentConfig
from agent_service.config.endpoints import TRANSCRIPTION, AuxiliaryModel, route_of
from agent_service.config.tools import BrowserConfig
from agent_service.models.endpoints import OPENAI_URL, OPENROUTER_URL
from agent_service.models.media.openai_sdk import OpenAIServer
from agent_service.models.parts import ModelParts
from agent_service.profiles.memory.provider import ExternalMemory
from agent_service.profiles.memory.store import MemoryStore
from agent_service.prompt.compression.compressor import Compressor
from agent_service.security.commands.paths import own_places
from agent_service.security.fetch.urls import Fetcher
from agent_service.security.threats import ThreatScanner
from agent_service.sessions.past_sessions import PastSessions
from agent_service.storage import sessions, uploads
from agent_service.tools.browser.browsers import Browsers
from agent_service.tools.builtin import ApprovalPolicy, MediaProviders, ToolResources, builtin_tools
from agent_service.tools.context_files import Hints
from agent_service.tools.guards.commands import CommandPolicy, JudgeCommands
from agent_service.tools.guards.model import GuardModel
from agent_service.tools.guards.second_opinion import SecondOpinion
from agent_service.tools.guards.shell_input import ShellInput
from agent_service.tools.guards.taint import Screen
from agent_service.tools.media.pictures import image_model_of
from agent_service.tools.media.speech import speaker_of, why_deaf, why_silent
from agent_service.tools.media.transcribe_audio import SETTINGS as TRANSCRIPTION_SETTINGS
from agent_service.tools.picture_viewer import PictureViewer
from agent_service.tools.schema import Listed
from agent_service.tools.shell.script import ScriptArguments, ScriptTool
from agent_service.tools.todo import STATE as PLAN
from agent_service.tools.todo import shown_plan
from agent_service.tools.toolbox import ContextFactory, Toolbox
from agent_service.tools.web.engines import configured_web
from agent_service.turns.answer_files import AnswerFiles
from agent_service.turns.file_reader import FileReader
from agent_service.turns.loop import LoopParts
from agent_service.turns.memory_sync import Recall
from agent_service.turns.script_turns import Scripts
from services.clock import SystemClock
from services.rpc.channels import Channels


def listed_tools(
    core: Core, memories: MemoryStore, reach: ToolResources, hints: Hints, policy: CommandPolicy
) -> Sequence[Listed]:
    """The tools as configured."""
    return builtin_tools(
        reach,
        hints=hints,
        asking=ApprovalPolicy(policy, core.asks_taint),
        memories=memories if core.config.memory.enabled else None,
        past=PastSessions(core.database),
        terminal=core.config.terminal,
    )


def browsers_of(config: BrowserConfig, executors: Executors) -> Browsers:
    """The browsers of sessions, in sandboxes or elsewhere."""
    cdp_url = config.cdp_url.get_secret_value()
    settings = {"cdp_url": cdp_url, "allow": config.allow, "deny": config.deny}
    if cdp_url:
        is_there = find_spec("playwright") is not None
        lack = "" if is_there else "hermes-services[browser] is not installed"
        return Browsers(BrowserProcesses().connect, lack, settings)
    sandboxes = BrowserSandboxes(executors, config.template, config.python)
    return Browsers(sandboxes.connect if config.template else None, settings=settings)


def tool_reach(
    core: Core, channels: Channels, external: ExternalMemory, executors: Executors
) -> ToolResources:
    """What tools use besides the sandbox."""
    config = core.config
    web = configured_web(config.fetch, config.search)
    vision = route_of(config.auxiliary, "vision")
    is_guarded = config.auxiliary.get("guard", AuxiliaryModel()).is_chosen
    guard = GuardModel(route_of(config.auxiliary, "guard")) if is_guarded else None
    sending, jobs = GatewayDeliveries(channels), SchedulerJobs(channels)
    screen, browsers = Screen(core.scanner, guard), browsers_of(config.browser, executors)
    remembering = listed_provider(external, screen, asks=core.asks_taint)
    senses = _senses(config, web.fetcher)
    add, home = StoredFiles(core.database).add, core.settings.home
    environments = SchedulerEnvironments(channels, home, add) if config.tools.rl else None
    reaching = sending, jobs, screen, remembering, senses, browsers, environments
    return ToolResources(web, vision, config.mixture, *reaching)


def _senses(config: AgentConfig, fetcher: Fetcher) -> MediaProviders:
    model, speech, urls = config.model, config.speech, config.providers
    openai = _server("OpenAI", urls.openai or OPENAI_URL, model.openai_api_key, "OPENAI_API_KEY")
    openrouter = _server(
        *("OpenRouter", urls.openrouter or OPENROUTER_URL),
        *(model.openrouter_api_key, "OPENROUTER_API_KEY"),
    )
    speaking = openai
    if speech.openai_base_url or speech.openai_key.get_secret_value():
        url = speech.openai_base_url or urls.openai or OPENAI_URL
        key = speech.openai_key if speech.openai_key.get_secret_value() else model.openai_api_key
        speaking = OpenAIServer("The speech server", url, key, "VOICE_TOOLS_OPENAI_KEY")
    return MediaProviders(
        route_of(config.tasks, TRANSCRIPTION),
        speaker_of(speech, speaking),
        why_silent(speech),
        why_deaf(config.transcription, TRANSCRIPTION_SETTINGS),
        image_model_of(config.pictures, openai, openrouter, fetcher),
        config.homeassistant,
    )


def _server(name: str, url: str, key: SecretStr, setting: str) -> OpenAIServer | None:
    return OpenAIServer(name, url, key, setting) if key.get_secret_value() else None


def job_scripts(
    config: AgentConfig, context: ContextFactory, policy: CommandPolicy, scanner: ThreatScanner
) -> Scripts:
    """Runs the scripts of jobs with the checks of commands."""
    script = ScriptTool(config.jobs.script_timeout_s)
    judged = JudgeCommands(script, _typed, policy)
    return Scripts(judged, context, policy.redactor, scanner)


def sight_of(core: Core, models: ModelParts) -> PictureViewer:
    """Shows pictures to models that see, and has others described."""
    vision = route_of(core.config.auxiliary, "vision")
    return PictureViewer(
        lambda model: models.catalog.find(model).sees, vision, core.screening.screen_file
    )


def loop_parts(
    core: Core,
    models: ModelParts,
    toolbox: Toolbox,
    scripts: Scripts,
    files: AnswerFiles,
    recall: Recall,
) -> LoopParts:
    """The parts that every turn uses."""
    config, database = core.config, core.database

    async def plan_of(session_id: str) -> str:
        return shown_plan(
            await database.read(lambda conn: sessions.get_state(conn, session_id, PLAN))
        )

    async def load(digest: str) -> bytes | None:
        return await database.read(lambda conn: uploads.read(conn, digest))

    reader = FileReader(
        load, sight_of(core, models), models.consult, route_of(config.tasks, TRANSCRIPTION)
    )
    compressor = Compressor(
        models.catalog.window_of, plan_of, config.compression, models.notes, SystemClock()
    )
    return LoopParts(
        *(models.priced, models.priced, toolbox, scripts, compressor, files, reader),
        *(core.redactor.redact, config.zone, recall),
    )


def _typed(arguments: ScriptArguments) -> ShellInput:
    return ShellInput(arguments.command)


def command_policy(core: Core) -> CommandPolicy:
    """What needs approval before commands run and files are touched."""
    config = core.config
    asked, judge = config.approvals, route_of(config.auxiliary, "approval")
    return CommandPolicy(
        asks=asked.mode != "off",
        asks_in_sandboxes=asked.sandboxed == "ask",
        asks_before_sending=core.asks_taint,
        own=own_places(core.settings.home.whole),
        denied=asked.deny,
        opinion=SecondOpinion(judge) if asked.mode == "smart" else None,
        redactor=core.redactor,
        blocked=core.scanner.blocked,
    )
