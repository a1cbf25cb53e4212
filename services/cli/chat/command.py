"""Chat with Hermes in the terminal, or ask one question with -q."""

import argparse
import os
import sys
from pathlib import Path

from hermes.agent.v1.turn_event_pb2 import ToolFinished
from hermes.common.v1.content_pb2 import ContextFile
from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from services.cli.chat.attachments import find, read, read_picture, upload
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.one_shot import OneShot, output_of
from services.cli.chat.screen import can_talk, standard_screen
from services.cli.chat.turn_view import TurnView
from services.cli.command import CONTINUED, Command, Context, arg, flag
from services.cli.connection import at_home, connected, elsewhere, has_services, reach
from services.cli.console import EXIT_FAILURE, EXIT_INTERRUPTED, complain, printable, say
from services.cli.first_run import or_demo, warn_of_host, with_model
from services.cli.output import print_json
from services.cli.standard_input import STANDARD, read_up_to
from services.cli.startup import imported, run_in_home
from services.config.settings import Settings
from services.errors import InvalidArgument
from services.home.project_notes import notes_above
from services.home.texts import decode_text
from services.home.workdirs import why_not
from services.rpc.channels import Channels
from services.runtime.config import ChatConfig

EXAMPLES = """\
examples:
  hermes chat                                 start a new session
  hermes chat --continue                      continue the last session
  hermes chat --resume 20261121_101500_a1b2c3
  hermes chat --resume "holiday plans"
  hermes chat -q "how much disk is left?"     ask one question
  hermes chat -q "what is in it?" --image photo.jpg
  hermes chat -q "explain @src/main.py:10-40"
  git log -20 | hermes chat -q "summarise this"
  hermes chat -q "run the tests" --here --json
  hermes chat -q '!make test' --here          run a command, and exit with its status
  hermes chat --sandbox gvisor                run commands in sandboxes of this template

With --here, the current folder becomes /workspace when you send the first message."""

BEHIND_A_CHAT = ("agent", "executor", "gateway")

MAX_QUESTION_BYTES = 1024 * 1024
"""The gateway's limit."""

UNUSED = (
    "hermes is already running, so --model and --base-url have no effect; use /model NAME in the "
    "chat, or stop hermes first"
)

TOO_LONG = (
    "the question and the piped input are together at most 1 MiB; use a file and --here for more"
)


def _chat(context: Context) -> int:
    """Talk until the user leaves, or until the one question is answered."""
    given = context.given
    if given.question is None and given.json:
        raise InvalidArgument("--json needs -q")
    files = [read(Path(path)) for path in given.files]
    given.attached = [*files, *(read_picture(Path(path)) for path in given.images)]
    question = _question(given.question)
    settings = context.settings
    if question is None and not can_talk(settings.environ):
        raise InvalidArgument("a chat needs a terminal; to ask one question: hermes chat -q TEXT")
    if not (given.here or given.latest or given.resume):
        given.here = settings.load(ChatConfig).mount_cwd and _can_mount(settings, Path.cwd())

    def chat() -> int:
        return run_in_home(settings, lambda: _run(settings, given, question))

    return or_demo(chat) if question is None else chat()


def opening(arguments: argparse.Namespace) -> ConverseRequest.Open:
    """Return the request to open the conversation of the options."""
    folder = Path.cwd() if arguments.here else None
    notes = (
        notes_above(folder, os.geteuid()) if folder and not arguments.skip_context_files else None
    )
    return ConverseRequest.Open(
        session_id=arguments.resume or "",
        latest=arguments.latest,
        profile=arguments.profile or "",
        workdir="" if folder is None else str(folder),
        context_file=None if notes is None else ContextFile(path=notes.path, text=notes.text),
        sandbox_template=arguments.sandbox,
        skip_context_files=arguments.skip_context_files,
    )


def why_not_mounted(settings: Settings, folder: Path) -> str:
    """Return why `terminal.mount_cwd` cannot mount a folder; usually empty."""
    # A remote gateway's executor is unknown here.
    for name, address in elsewhere(settings, ("gateway", "executor")).items():
        if not address.is_local:
            return f"the {name} is on another machine ({address})"
    why = why_not(folder, settings.home.root, Path.home())
    return why and f"the folder may not be {why}"


def _can_mount(settings: Settings, folder: Path) -> bool:
    """Return whether a new session may work in a folder; reports why not."""
    if why := why_not_mounted(settings, folder):
        complain(f"the session does not use {folder} (terminal.mount_cwd): {why}")
    return not why


async def _run(settings: Settings, arguments: argparse.Namespace, question: str | None) -> int:
    needed = at_home(settings, BEHIND_A_CHAT)
    if "gateway" not in needed:
        needed = ("gateway", "agent") if arguments.attached else ("gateway",)
    else:
        await reach(settings, ("agent",))  # a gateway here would wait for it silently
    if "agent" in needed and not await has_services(settings, needed):
        settings = await with_model(settings, may_ask=not arguments.json)
    elif arguments.model or arguments.base_url:
        complain(UNUSED)
    async with connected(settings, needed) as channels:
        if "executor" in needed:
            await warn_of_host(settings, channels)
        if question is None:
            # The prompt's libraries are slow to import, and a single question needs none.
            talk = imported("services.cli.chat.talk:Talk")
            near = "agent" in needed
            opened = opening(arguments)
            files = arguments.attached
            return await talk(channels, opened, settings, agent_is_near=near, files=files).run()
        return await _ask(settings, channels, arguments, question)


async def _ask(
    settings: Settings, channels: Channels, arguments: argparse.Namespace, question: str
) -> int:
    view, is_command = None, question.startswith("!") and not arguments.attached
    if not (arguments.json or is_command):
        view = TurnView(standard_screen(settings.environ), tells_failure=False)
    once = OneShot(view, is_command=is_command)
    asked, found = (question, []) if question.startswith("/") else find(question)
    found = [*arguments.attached, *found]
    files = await upload(channels.to("agent"), found) if found else []
    await once.ask(Dialogue(channels.to("gateway"), opening(arguments)), asked, files)
    if arguments.json:
        print_json(once.as_json())
    elif once.reply:
        say(printable(once.reply))
    if once.failure:
        complain(once.failure)
        return EXIT_INTERRUPTED if once.was_interrupted else EXIT_FAILURE
    return 0 if once.command is None else _end(once.command, is_silent=arguments.json)


def _end(command: ToolFinished, *, is_silent: bool) -> int:
    """Print a command's output unless `is_silent`; return its exit status."""
    is_run = command.HasField("exit_code")
    if (output := output_of(command)) and not is_silent:
        (say if is_run else complain)(printable(output))
    return command.exit_code if is_run else EXIT_FAILURE


def _question(given: str | None) -> str | None:
    """Return the question, after piped input."""
    if given is None:
        return None
    asked = decode_text(given.encode(errors="surrogateescape"), "replace")
    if sys.stdin is not None and not sys.stdin.isatty():
        data = read_up_to(STANDARD, MAX_QUESTION_BYTES)
        if len(data) > MAX_QUESTION_BYTES:
            raise InvalidArgument(TOO_LONG)
        piped = decode_text(data, "replace")
        if "\ufffd" in piped:
            complain("the piped input is not all UTF-8; the rest is replaced")
        asked = f"{piped.rstrip()}\n\n{asked}" if piped.strip() else asked
    if len(asked.encode()) > MAX_QUESTION_BYTES:
        raise InvalidArgument(TOO_LONG)
    return asked


COMMAND = Command(
    EXAMPLES,
    function=_chat,
    arguments=(
        arg("-q --question TEXT", "ask one question and print the answer"),
        arg(
            "--file PATH",
            "a picture, sound or document for the first message; repeatable",
            field="files",
            action="append",
            default=[],
        ),
        arg(
            "--image FILE",
            "a picture for the first message; repeatable",
            field="images",
            action="append",
            default=[],
        ),
        flag("--json", "with -q: print a JSON object"),
        CONTINUED,
        flag("--here", "use the current folder as the workspace"),
        arg("--sandbox NAME", "sandbox template for a new session", default=""),
        flag("--skip-context-files", "do not read SOUL.md, AGENTS.md and similar files"),
        arg("--model NAME", "model to use"),
        arg("--base-url URL", "OpenAI-compatible endpoint"),
    ),
    # The services of this command are for itself alone: no sandbox in advance, none left behind.
    defaults={"prefill": False, "warm_pool_size": 0, "keep_on_exit": False, "allow_workdir": True},
)
