"""The list of all built-in tools."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from agent_service.config.senses import HomeAssistantConfig
from agent_service.config.tools import MixtureConfig, TerminalConfig
from agent_service.models.fallback import USUAL, Route
from agent_service.profiles.memory.store import MemoryStore
from agent_service.records.jobs import Environments, Jobs
from agent_service.records.messages import Messenger
from agent_service.sessions.past_sessions import PastSessions
from agent_service.tools.base import Tool, ToolContext
from agent_service.tools.browser.browsers import Browsers
from agent_service.tools.browser.tools import SETTINGS as BROWSER_SETTINGS
from agent_service.tools.browser.tools import UploadArguments, addresses_of, browser_tools
from agent_service.tools.clarify import Clarify
from agent_service.tools.context_files import Hints, hinted
from agent_service.tools.cronjob.cronjob import Cronjob
from agent_service.tools.delegate_task import DelegateTask
from agent_service.tools.files.list_directory import ListDirectory
from agent_service.tools.files.read_file import ReadFile, ReadFileArguments
from agent_service.tools.files.search_files import SearchFiles, SearchFilesArguments
from agent_service.tools.files.write_file import WriteFile, WriteFileArguments
from agent_service.tools.guards.commands import CommandPolicy, JudgeCommands
from agent_service.tools.guards.files import JudgeFiles, Touched
from agent_service.tools.guards.persistence import AskBeforeKeeping
from agent_service.tools.guards.shell_input import ShellInput
from agent_service.tools.guards.taint import (
    MEMORY_KEPT,
    SKILL_KEPT,
    AskForNewAddresses,
    FromSandbox,
    Screen,
    Untrusted,
)
from agent_service.tools.homeassistant.call_service import CallService
from agent_service.tools.homeassistant.connection import SETTINGS as HOME_SETTINGS
from agent_service.tools.homeassistant.connection import HomeAssistant
from agent_service.tools.homeassistant.queries import GetState, ListEntities, ListServices
from agent_service.tools.media.image_generate import ImageGenerate
from agent_service.tools.media.pictures import SETTINGS as PICTURE_SETTINGS
from agent_service.tools.media.pictures import ImageModel
from agent_service.tools.media.speech import SETTINGS as SPEECH_SETTINGS
from agent_service.tools.media.speech import Lack, SpeechModel
from agent_service.tools.media.text_to_speech import TextToSpeech
from agent_service.tools.media.transcribe_audio import SETTINGS as TRANSCRIPTION_SETTINGS
from agent_service.tools.media.transcribe_audio import TranscribeAudio, TranscribeAudioArguments
from agent_service.tools.memory import MemoryTool
from agent_service.tools.mixture_of_agents import SETTINGS as MIXTURE_SETTINGS
from agent_service.tools.mixture_of_agents import MixtureOfAgents
from agent_service.tools.patching.forms import Malformed
from agent_service.tools.patching.patch import Patch, PatchArguments, paths_of
from agent_service.tools.rl import SETTINGS as RL_SETTINGS
from agent_service.tools.rl import rl_tools
from agent_service.tools.schema import Listed
from agent_service.tools.send_message import SendMessage
from agent_service.tools.session_search import SessionSearch
from agent_service.tools.shell.execute_code import ExecuteCode, ExecuteCodeArguments
from agent_service.tools.shell.process import Process, ProcessArguments
from agent_service.tools.shell.terminal import Terminal, TerminalArguments, folders_of
from agent_service.tools.skills import SkillManage, SkillsList, SkillView
from agent_service.tools.todo import Todo
from agent_service.tools.vision_analyze import VisionAnalyze, VisionAnalyzeArguments
from agent_service.tools.web.engines import SETTINGS, Web
from agent_service.tools.web.web_extract import WebExtract, WebExtractArguments, is_installed
from agent_service.tools.web.web_search import WebSearch


class ApprovalPolicy(Struct, frozen=True):
    """When a person is asked before a tool runs."""

    commands: CommandPolicy = field(default_factory=lambda: CommandPolicy(asks=False))
    tainted: bool = True
    """Whether a tainted session asks before anything leaves or outlasts it."""


class MediaProviders(Struct, frozen=True):
    """What tools hear, speak and make pictures with; None if nothing is set up."""

    transcription: Route = USUAL
    speaker: SpeechModel | None = None
    why_silent: Lack = (SPEECH_SETTINGS, "")
    why_deaf: Lack = (TRANSCRIPTION_SETTINGS, "")
    painter: ImageModel | None = None
    homeassistant: HomeAssistantConfig = HomeAssistantConfig()


class ToolResources(Struct, frozen=True):
    """What tools use besides the sandbox."""

    web: Web
    vision: Route
    mixture: MixtureConfig
    messenger: Messenger
    jobs: Jobs
    screen: Screen
    external: Sequence[Listed] = ()
    senses: MediaProviders = MediaProviders()
    browsers: Browsers = Browsers()
    environments: Environments | None = None
    """None if models may not run them."""


def builtin_tools(
    reach: ToolResources,
    *,
    asking: ApprovalPolicy | None = None,
    memories: MemoryStore | None = None,
    hints: Hints | None = None,
    past: PastSessions | None = None,
    terminal: TerminalConfig | None = None,
) -> Sequence[Listed]:
    """Every tool, in the order that the model sees."""
    asking = asking or ApprovalPolicy()
    command: Tool[TerminalArguments] = Terminal(terminal)
    process: Tool[ProcessArguments] = Process()
    program: Tool[ExecuteCodeArguments] = ExecuteCode()
    remembering = () if memories is None else (MemoryTool(memories),)
    commands, screen = asking.commands, reach.screen
    everywhere: list[Tool[Any]] = [
        hinted(
            FromSandbox(JudgeCommands(command, _typed, commands), screen, runs_commands=True),
            hints,
            folders_of,
        ),
        FromSandbox(JudgeCommands(process, _input, commands), screen, runs_commands=True),
        hinted(FromSandbox(JudgeFiles(ReadFile(), _read, commands), screen), hints),
        hinted(JudgeFiles(WriteFile(), _replaced, commands), hints),
        hinted(FromSandbox(JudgeFiles(Patch(), _changed, commands), screen), hints, _patched),
        hinted(FromSandbox(JudgeFiles(SearchFiles(commands), _read, commands), screen), hints),
        hinted(FromSandbox(ListDirectory(), screen), hints),
        Todo(),
        Clarify(),
        *(AskBeforeKeeping(each, MEMORY_KEPT, screen, asks=asking.tainted) for each in remembering),
        *(() if past is None else (SessionSearch(past),)),
        SkillsList(),
        SkillView(),
        AskBeforeKeeping(SkillManage(), SKILL_KEPT, screen, asks=asking.tainted),
        DelegateTask(),
        FromSandbox(JudgeCommands(program, _code, commands), screen, runs_commands=True),
    ]
    return (*map(Listed, everywhere), *_reaching(reach, asking))


def _reaching(reach: ToolResources, asking: ApprovalPolicy) -> Sequence[Listed]:
    web, mixed = reach.web, reach.mixture
    send = SendMessage(reach.messenger, asking.commands, asks=asking.tainted)
    extract: Tool[Any] = WebExtract(web.fetcher)
    looking: Tool[Any] = VisionAnalyze(web.fetcher, reach.vision)
    if asking.tainted:
        extract = AskForNewAddresses(extract, _pages)
        looking = AskForNewAddresses(looking, _picture)
    mixture = MixtureOfAgents(mixed.references, mixed.aggregator)
    return (
        Listed(
            Untrusted(WebSearch(web.search), "a web search", reach.screen),
            missing=() if web.search.is_possible else SETTINGS,
        ),
        Listed(
            Untrusted(extract, "web pages", reach.screen),
            reason="" if is_installed() else "hermes-services[web] is not installed",
        ),
        Listed(Untrusted(looking, "a picture", reach.screen)),
        *_making(reach.senses, reach.screen, asking.commands),
        *_home_assistant(reach.senses.homeassistant, reach.screen, asking),
        Listed(mixture, missing=() if mixed.references else MIXTURE_SETTINGS),
        *_browsing(reach, asking),
        Listed(Cronjob(reach.jobs, reach.screen, asks=asking.tainted)),
        Listed(send),
        *_training(reach.environments),
        *reach.external,
    )


def _training(environments: Environments | None) -> Sequence[Listed]:
    nobody: Any = None
    missing = RL_SETTINGS if environments is None else ()
    return [Listed(each, missing=missing) for each in rl_tools(environments or nobody)]


def _making(senses: MediaProviders, screen: Screen, commands: CommandPolicy) -> Sequence[Listed]:
    hearing: Tool[Any] = JudgeFiles(TranscribeAudio(senses.transcription), _heard, commands)
    nothing: Lack = (), ""
    deaf = nothing if senses.transcription.model else senses.why_deaf
    silent = senses.why_silent if senses.speaker is None else nothing
    return (
        Listed(Untrusted(hearing, "a sound", screen), *deaf),
        Listed(TextToSpeech(senses.speaker), *silent),
        Listed(
            ImageGenerate(senses.painter),
            missing=PICTURE_SETTINGS if senses.painter is None else (),
        ),
    )


def _home_assistant(
    config: HomeAssistantConfig, screen: Screen, asking: ApprovalPolicy
) -> Sequence[Listed]:
    server = HomeAssistant(config)
    tools: Sequence[Tool[Any]] = (
        *(ListEntities(server), GetState(server), ListServices(server)),
        CallService(server, asks=asking.commands.asks, asks_if_tainted=asking.tainted),
    )
    missing = () if config.token.get_secret_value() else HOME_SETTINGS
    return [Listed(Untrusted(each, "Home Assistant", screen), missing=missing) for each in tools]


def _browsing(reach: ToolResources, asking: ApprovalPolicy) -> Iterator[Listed]:
    browsers = reach.browsers
    missing = () if browsers.connect else BROWSER_SETTINGS
    for tool in browser_tools(browsers, asks=asking.tainted):
        match tool.name:
            case "browser_navigate" if asking.tainted:
                judged = AskForNewAddresses(tool, addresses_of)
            case "browser_upload":
                judged = JudgeFiles(tool, _uploaded, asking.commands)
            case _:
                judged = tool
        yield Listed(Untrusted(judged, "a browser", reach.screen), missing, browsers.lack)


async def _patched(arguments: PatchArguments, _context: ToolContext) -> Sequence[str]:
    return paths_of(arguments)


def _pages(arguments: WebExtractArguments) -> Sequence[str]:
    return arguments.urls


def _picture(arguments: VisionAnalyzeArguments) -> Sequence[str]:
    return [image for image in arguments.all if "://" in image]


def _heard(arguments: TranscribeAudioArguments) -> Touched:
    return Touched(reads=(arguments.audio,))


def _read(arguments: ReadFileArguments | SearchFilesArguments) -> Touched:
    return Touched(reads=(arguments.path,))


def _uploaded(arguments: UploadArguments) -> Touched:
    return Touched(reads=arguments.paths)


def _replaced(arguments: WriteFileArguments) -> Touched:
    return Touched(writes=(arguments.path,), says=arguments.content)


def _changed(arguments: PatchArguments) -> Touched:
    try:
        paths = tuple(filter(None, paths_of(arguments)))
    except Malformed:
        return Touched()
    text = arguments.patch or f"-{arguments.old_string}\n+{arguments.new_string}"
    return Touched(paths, paths, text)


def _typed(arguments: TerminalArguments) -> ShellInput:
    return ShellInput(arguments.command, arguments.workdir, has_folder=True)


def _input(arguments: ProcessArguments) -> ShellInput | None:
    if arguments.action not in ("write", "submit"):
        return None
    key, newline = arguments.session_id, "\n" if arguments.action == "submit" else ""
    return ShellInput(arguments.data + newline, key, process=key)


def _code(arguments: ExecuteCodeArguments) -> ShellInput:
    return ShellInput(f"python3 -c {shlex.quote(arguments.code)}", shown=arguments.code)
