"""The chat in the terminal: a prompt, and above it whatever happens."""

import asyncio
import signal
from contextlib import aclosing, suppress

import grpc
import grpc.aio
from msgspec import Struct, field
from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from hermes.agent.v1 import turn_event_pb2
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.channels import Channels
from services.cli.completion import CommandCompleter
from services.cli.console import printable
from services.cli.dialogue import Dialogue
from services.cli.markdown import rendered
from services.cli.recall import recall
from services.cli.received import Note, Receiver
from services.cli.turn_view import TurnView
from services.errors import HermesError, message_of
from services.home import HomePaths
from services.ids import new_id
from services.lifecycle import Workers

WELCOME = "Ctrl-C interrupts, Ctrl-D leaves, /help lists the commands."

LEAVE = ("/quit", "/exit")

QUESTION = "allow? [y]es, this [s]ession, [a]lways, [n]o > "
QUESTION_OF_TOOL = "allow? [y]es, this [s]ession, [n]o > "
ANSWER = "answer > "
HINT = "Say yes, session, always or no; Ctrl-C stops everything."
HINT_OF_TOOL = "Say yes, session or no; Ctrl-C stops everything."

_DECISIONS = {
    **dict.fromkeys(("y", "yes", "once", "/approve"), turn_event_pb2.APPROVAL_DECISION_ONCE),
    **dict.fromkeys(("s", "session", "/approve session"), turn_event_pb2.APPROVAL_DECISION_SESSION),
    **dict.fromkeys(("a", "always", "/approve always"), turn_event_pb2.APPROVAL_DECISION_ALWAYS),
    **dict.fromkeys(("n", "no", "deny", "/deny"), turn_event_pb2.APPROVAL_DECISION_DENY),
}
_DECISIONS_OF_TOOL = {
    word: taken
    for word, taken in _DECISIONS.items()
    if taken != turn_event_pb2.APPROVAL_DECISION_ALWAYS
}
LATER = "; it will be tried again when hermes chat is opened"
RECALL_S = 3.0
"""What was said before is not waited for any longer."""

_STOP = "/stop"
_MEANWHILE = ("/status", "/help")
"""Commands that leave a question open."""


class _Question(Struct, frozen=True):
    """What a person has to decide, until it is decided or its turn has ended."""

    asked: turn_event_pb2.ApprovalRequested | turn_event_pb2.ClarificationRequested
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        """The id of what is asked."""
        if isinstance(self.asked, turn_event_pb2.ApprovalRequested):
            return self.asked.approval_id
        return self.asked.clarification_id


class Talk:
    """One sitting at the terminal."""

    def __init__(
        self,
        channels: Channels,
        opening: ConverseRequest.Open,
        home: HomePaths,
        *,
        agent_is_near: bool = True,
    ) -> None:
        """Take the conversation to open; only an agent that is near can tell what was said."""
        goes_on = opening.latest or bool(opening.session_id)
        self._profile = opening.profile
        self._told_by = channels.to("agent") if goes_on and agent_is_near else None
        self._opened = asyncio.Event()
        opening.takes_news = True
        self._gateway = channels.to("gateway")
        self._dialogue = Dialogue(self._gateway, opening)
        self._console = Console()
        self._view = TurnView(self._console)
        self._completer = CommandCompleter()
        self._home, self._files = home, Receiver(self._gateway, self._profile, home)
        self._waiting: set[str] = set()
        self._session_id = self._turn = ""
        self._idle = asyncio.Event()
        self._questions: asyncio.Queue[_Question] = asyncio.Queue()
        self._open: dict[str, _Question] = {}

    async def run(self) -> int:
        """Talk until the user leaves."""
        async with self._dialogue, Workers() as workers:
            reader = workers.start("responses", self._read(workers))
            talker = workers.start("prompt", self._prompt(workers))
            done, _ = await asyncio.wait({reader, talker}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return 0

    async def _read(self, workers: Workers) -> None:
        async with aclosing(self._dialogue.responses()) as responses:
            async for response in responses:
                if response.reply.HasField("attachment"):
                    await self._announced(response.reply, workers)
                    continue
                self._show(response)
                if response.HasField("opened"):
                    workers.start("files", self._receive_left())
                    workers.start("commands", self._completer.learn(self._gateway, self._profile))

    async def _announced(self, told: ConverseResponse.Reply, workers: Workers) -> None:
        try:
            note = await self._files.note(told)
        except (OSError, HermesError) as error:
            self._tell(f"{told.attachment.name} could not be fetched: {error}", "red")
        else:
            workers.start("file", self._receive(note))

    async def _receive_left(self) -> None:
        """Fetch what an earlier terminal has not, or what failed before the connection was back."""
        for note in await self._files.left():
            await self._receive(note)

    async def _receive(self, note: Note) -> None:
        """Fetch a file, and say where it is, or why there is none."""
        told, name, style = note.told, note.told.attachment.name, ""
        try:
            path = await self._files.fetch(note)
        except grpc.aio.AioRpcError as error:
            line, style = f"{name} could not be fetched: {message_of(error)}", "red"
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                line += LATER
        except (OSError, HermesError) as error:
            line, style = f"{name} could not be fetched: {error}{LATER}", "red"
        else:
            if path is None:
                return  # another terminal says where it is
            line = f"{told.text}{name}, {told.attachment.length_bytes:,} bytes, is in {path}"
        self._tell(line, style)

    def _tell(self, line: str, style: str) -> None:
        self._console.print("── news", style="dim")
        self._console.print(printable(line), style=style, markup=False, highlight=False)

    async def _prompt(self, workers: Workers) -> None:
        session: PromptSession[str] = PromptSession(
            history=FileHistory(str(self._home.run / "chat_history")),
            completer=self._completer,
            complete_while_typing=False,
        )
        await self._recall()
        self._console.print(WELCOME, style="dim")
        while True:
            try:
                with patch_stdout(raw=True):
                    line = (await session.prompt_async("> ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if line in LEAVE:
                return
            if line and not await self._exchange(session, workers, line):
                return

    async def _recall(self) -> None:
        """Show where the session was, unless that cannot be learned soon."""
        if self._told_by is None:
            return
        with suppress(TimeoutError, grpc.aio.AioRpcError):
            async with asyncio.timeout(RECALL_S):
                await self._opened.wait()
                await recall(self._told_by, self._session_id, self._profile, self._console)

    async def _exchange(self, session: PromptSession[str], workers: Workers, line: str) -> bool:
        """Send a line and follow what it causes; False when the user leaves meanwhile."""
        self._idle.clear()
        message_id = new_id("msg")
        self._waiting.add(message_id)  # before it is sent: its answer may come meanwhile
        await self._dialogue.say(line, message_id)
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGINT, lambda: workers.start("interrupt", self._dialogue.interrupt())
        )
        idle = workers.start("turn", self._idle.wait())
        while not idle.done():
            asked = workers.start("question", self._questions.get())
            await asyncio.wait({idle, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                asked.cancel()
            elif not await self._decide(session, workers, asked.result()):
                return False
        return True

    async def _decide(
        self, session: PromptSession[str], workers: Workers, question: _Question
    ) -> bool:
        """Ask until there is a decision, here or elsewhere; False when the user leaves instead."""
        if question.over.is_set():
            return True
        asked = question.asked
        if isinstance(asked, turn_event_pb2.ClarificationRequested):
            return await self._clarify(session, workers, question, asked)
        self._console.print(f"{asked.tool} wants to run:", style="yellow")
        self._console.print(printable(asked.subject), style="bold", markup=False, highlight=False)
        prompt, hint, decisions = QUESTION, HINT, _DECISIONS
        if not asked.can_be_always:
            prompt, hint, decisions = QUESTION_OF_TOOL, HINT_OF_TOOL, _DECISIONS_OF_TOOL
        while (typed := await self._answer(session, workers, question, prompt)) is not None:
            answer = " ".join(typed.lower().split())
            if answer in LEAVE:
                return False
            if answer == _STOP:
                await self._dialogue.interrupt()
                await question.over.wait()
                return True
            if answer in decisions:
                await self._dialogue.decide(asked.approval_id, decisions[answer])
                return True
            if answer in _MEANWHILE:
                await self._dialogue.say(answer)
            else:
                self._console.print(hint, style="dim")
        return True

    async def _clarify(
        self,
        session: PromptSession[str],
        workers: Workers,
        question: _Question,
        asked: turn_event_pb2.ClarificationRequested,
    ) -> bool:
        """Ask until there is an answer, here or elsewhere; False when the user leaves instead."""
        choices = [f"  {number}. {choice}" for number, choice in enumerate(asked.choices, 1)]
        for line in (asked.question, *choices):
            self._console.print(printable(line), style="bold", markup=False, highlight=False)
        while (typed := await self._answer(session, workers, question, ANSWER)) is not None:
            answer = typed.strip()
            if answer in LEAVE:
                return False
            if answer == _STOP:
                await self._dialogue.interrupt()
                await question.over.wait()
                return True
            if answer in _MEANWHILE:
                await self._dialogue.say(answer)
            elif answer:
                await self._dialogue.answer(asked.clarification_id, answer)
                return True
        return True

    async def _answer(
        self, session: PromptSession[str], workers: Workers, question: _Question, prompt: str
    ) -> str | None:
        """What the user types; None when there is nothing to decide any more."""
        typed = workers.start("answer", _typed(session, prompt))
        over = workers.start("decided", question.over.wait())
        await asyncio.wait({typed, over}, return_when=asyncio.FIRST_COMPLETED)
        for task in (typed, over):
            task.cancel()
        await asyncio.wait({typed, over})
        return None if typed.cancelled() else typed.result()

    def _show(self, response: ConverseResponse) -> None:
        match response.WhichOneof("kind"):
            case "opened":
                self._session_id = response.opened.session_id
                self._opened.set()
            case "accepted":
                self._waiting.discard(response.accepted.message_id)
                self._turn = response.accepted.turn_id
            case "reply":
                if not response.reply.message_id:
                    self._console.print("── news", style="dim")
                style = "red" if response.reply.is_error else ""
                text = rendered(printable(response.reply.text))
                self._console.print(text, style=style, highlight=False)
                self._waiting.discard(response.reply.message_id)
            case "event":
                for event in response.event.events:
                    self._view.show(event)
                    self._follow(event, response.event.turn_id)
            case _:
                pass
        if not self._waiting and not self._turn:
            self._idle.set()

    def _follow(self, event: turn_event_pb2.TurnEvent, turn_id: str) -> None:
        match event.WhichOneof("kind"):
            case "approval_requested":
                question = _Question(event.approval_requested)
                self._open[question.id] = question
                self._questions.put_nowait(question)
            case "clarification_requested":
                question = _Question(event.clarification_requested)
                self._open[question.id] = question
                self._questions.put_nowait(question)
            case "approval_resolved":
                self._end_question(event.approval_resolved.approval_id)
            case "clarification_answered":
                self._end_question(event.clarification_answered.clarification_id)
            case "turn_finished" if turn_id == self._turn:
                self._turn = ""
                for question_id in list(self._open):
                    self._end_question(question_id)
            case _:
                pass

    def _end_question(self, question_id: str) -> None:
        if (question := self._open.pop(question_id, None)) is not None:
            question.over.set()


async def _typed(session: PromptSession[str], prompt: str) -> str:
    """The answer to a question, where Ctrl-C means to stop and Ctrl-D to leave."""
    try:
        with patch_stdout(raw=True):
            # Its own handler of the signal would take ours away, and then nothing interrupts
            # what was allowed; in the prompt Ctrl-C is a key.
            typed = await session.prompt_async(prompt, handle_sigint=False)
    except KeyboardInterrupt:
        return _STOP
    except EOFError:
        return LEAVE[0]
    return typed
