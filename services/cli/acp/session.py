"""One session in the editor: its prompts, its turns, and the questions that they ask."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import acp
from acp.schema import (
    PermissionOption,
    PermissionOptionKind,
    SessionMode,
    SessionModeState,
    StopReason,
    ToolCallUpdate,
)
from msgspec import Struct, field
from msgspec.structs import replace

from hermes.agent.v1 import turn_event_pb2 as pb
from hermes.agent.v1.turn_event_pb2 import TurnEvent, TurnFinished
from hermes.common.v1.content_pb2 import MessageFile
from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from services.cli.acp.prompt import Editor
from services.cli.acp.updates import Folder, TurnUpdates, answer, fenced, kind_of, thought
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.downloads import Downloads
from services.cli.chat.questions import Question, asked_in, ended_in
from services.cli.chat.turn_view import shortfall
from services.cli.failures import EXPECTED, explain
from services.errors import Unavailable
from services.lifecycle import Workers

_DECISIONS = {
    "once": pb.APPROVAL_DECISION_ONCE,
    "session": pb.APPROVAL_DECISION_SESSION,
    "always": pb.APPROVAL_DECISION_ALWAYS,
    "deny": pb.APPROVAL_DECISION_DENY,
}
ASK, ALLOW, DENY = "ask", "allow", "deny"
MODES = {
    ASK: "Ask before calls that need approval",
    ALLOW: "Allow calls that need approval without asking",
    DENY: "Deny calls that need approval without asking",
}
_UNASKED = {ALLOW: pb.APPROVAL_DECISION_ONCE, DENY: pb.APPROVAL_DECISION_DENY}
_WORDS = "words"
_INTERNAL = -32603


class _Prompt(Struct):
    """A prompt that the editor waits for."""

    turn_id: str = ""
    """Empty while the gateway has not accepted it."""
    done: asyncio.Future[StopReason] = field(default_factory=asyncio.Future[StopReason])


class EditorSession:
    """Shows a conversation in the editor, and passes on what is said there."""

    def __init__(
        self,
        editor: Editor,
        dialogue: Dialogue,
        downloads: Downloads,
        folder: Folder,
        workers: Workers,
    ) -> None:
        self.folder = folder
        self.editor = editor
        self.mode = ASK
        self.said = list[str]()
        """Output of commands in the editor's terminal, which the agent has not been given yet."""
        self._dialogue = dialogue
        self._downloads = downloads
        self._workers = workers
        self._prompts: dict[str, _Prompt] = {}
        """By the ids of their messages, or of the questions that they answer."""
        self._turns: dict[str, TurnUpdates] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._in_words: Question | None = None
        """The question that the next prompt answers."""
        self._command: asyncio.Task[str] | None = None
        self.session_id = ""
        """The session of the conversation, which changes with commands such as `/new`."""
        self._opened = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def open(self, timeout_s: float) -> None:
        """Open the conversation; a new session gives the editor its id."""
        self._following = self._workers.start("conversation of an editor", self._run())
        opened = self._workers.start("opening", self._opened.wait())
        waited = {self._following, opened}
        await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        if not self._opened.is_set():
            self.close()
            if self._following.done():
                self._following.result()
            raise Unavailable("the gateway does not answer")
        session_id = self.editor.session_id or self.session_id
        self.editor = replace(self.editor, session_id=session_id)

    def modes(self) -> SessionModeState:
        """Return who decides on calls that need approval, and the choices."""
        modes = [SessionMode(id=it, name=it.title(), description=MODES[it]) for it in MODES]
        return SessionModeState(current_mode_id=self.mode, available_modes=modes)

    @property
    def is_over(self) -> bool:
        """Whether the conversation has ended, such as after the gateway was away for long."""
        return self._following is None or self._following.done()

    def close(self) -> None:
        """End the conversation; its turns go on."""
        if self._following is not None:
            self._following.cancel()

    async def _run(self) -> None:
        """Follow the conversation; its failure fails the prompts."""
        error: BaseException = acp.RequestError(_INTERNAL, "the session was closed")
        try:
            async with aclosing(self._dialogue.responses()) as responses:
                async for response in responses:
                    await self._take(response)
        except EXPECTED as failure:
            error = acp.RequestError(_INTERNAL, explain(failure))
            raise
        finally:
            for task in self._asking.values():
                task.cancel()
            for prompt in self._prompts.values():
                if not prompt.done.done():
                    prompt.done.set_exception(error)

    async def prompt(self, text: str, files: Sequence[MessageFile]) -> StopReason:
        """Send a prompt, and return how it ended."""
        question, prompt = self._in_words, _Prompt()
        is_answer = question is not None and self._dialogue.waits_for(question)
        if question is not None and is_answer and text.strip() and not text.startswith("/"):
            key, prompt.turn_id, self._in_words = question.id, question.turn_id, None
            self._prompts[key] = prompt
            self._dialogue.answer(question.id, text)
        else:
            key = self._dialogue.say(text, files=files)
            self._prompts[key] = prompt
        try:
            return await prompt.done
        finally:
            del self._prompts[key]

    async def run_command(self, command: str) -> StopReason:
        """Run a command in the editor's terminal; its output joins the next prompt."""
        running = self.editor.run(command, self.folder.path)
        self._command = self._workers.start("terminal of the editor", running)
        try:
            self.said.append(await asyncio.shield(self._command))
        except asyncio.CancelledError:
            if not self._command.done():  # it was not the command that was cancelled
                raise
            return "cancelled"
        return "end_turn"

    def cancel(self) -> None:
        """Stop what runs."""
        if self._command is not None and not self._command.done():
            self._command.cancel()
        if self._prompts:
            self._dialogue.interrupt()

    def ask(self, question: Question) -> None:
        """Ask the person at the editor, unless the mode has the answer."""
        if question.is_approval and self.mode in _UNASKED:
            self._dialogue.decide(question.id, _UNASKED[self.mode])
        elif question.id not in self._asking:
            asking = self._workers.start(f"question {question.id}", self._ask(question))
            self._asking[question.id] = asking
            asking.add_done_callback(lambda _: self._asking.pop(question.id, None))

    async def _take(self, response: ConverseResponse) -> None:
        match response.WhichOneof("kind"):
            case "opened":
                self.session_id = response.opened.session_id
                self._opened.set()
            case "accepted":
                if prompt := self._prompts.get(response.accepted.message_id):
                    prompt.turn_id = response.accepted.turn_id
                for update in thought(response.accepted.remark):
                    await self.editor.update(update)
            case "reply":
                await self._reply(response.reply)
            case "event":
                for event in response.event.events:
                    await self._follow(response.event.turn_id, event)
            case _:
                pass

    async def _reply(self, reply: ConverseResponse.Reply) -> None:
        text = reply.text
        if reply.HasField("attachment"):
            text, _ = await self._downloads.receive(reply)
        choices = self._dialogue.choices.lines
        shown = "\n\n".join(filter(None, (text, choices)))
        for update in answer(shown if reply.message_id else f"{shown}\n\n"):
            await self.editor.update(update)
        self.session_id = reply.session_id or self.session_id
        if prompt := self._prompts.get(reply.message_id):
            _resolve(prompt, "end_turn")

    async def _follow(self, turn_id: str, event: TurnEvent) -> None:
        shown = self._turns.setdefault(turn_id, TurnUpdates(self.folder))
        for update in shown.of(event):
            await self.editor.update(update)
        if question := asked_in(turn_id, event):
            self.ask(question)
        ended, _ = ended_in(event)
        if asking := self._asking.pop(ended, None):
            asking.cancel()
        if event.HasField("turn_finished"):
            del self._turns[turn_id]
            await self._finish(turn_id, event.turn_finished)

    async def _finish(self, turn_id: str, finished: TurnFinished) -> None:
        outcome = finished.WhichOneof("outcome")
        waiting = [prompt for prompt in self._prompts.values() if prompt.turn_id == turn_id]
        message, _ = shortfall(finished)
        if outcome == "failed" and waiting:
            for prompt in waiting:
                if not prompt.done.done():
                    prompt.done.set_exception(acp.RequestError(_INTERNAL, message))
            return
        if outcome != "cancelled":
            for update in answer(message and f"\n\n{message}"):
                await self.editor.update(update)
        reasons: dict[str | None, StopReason] = {
            "cancelled": "cancelled",
            "limit_reached": "max_turn_requests",
        }
        for prompt in waiting:
            _resolve(prompt, reasons.get(outcome, "end_turn"))

    async def _ask(self, question: Question) -> None:
        asked = question.asked
        if isinstance(asked, pb.ClarificationRequested) and not asked.choices:
            await self._ask_in_words(question)
            return
        chosen = await self._permission(asked)
        if not self._dialogue.waits_for(question):
            return
        if chosen is None:
            self._dialogue.interrupt()
        elif isinstance(asked, pb.ApprovalRequested):
            self._dialogue.decide(question.id, _DECISIONS[chosen])
        elif chosen == _WORDS:
            await self._ask_in_words(question)
        else:
            self._dialogue.answer(question.id, chosen)

    async def _permission(
        self, asked: pb.ApprovalRequested | pb.ClarificationRequested
    ) -> str | None:
        """Return the id of the chosen option; None if the editor has cancelled the turn."""
        if isinstance(asked, pb.ApprovalRequested):
            title, content = asked.subject.strip().partition("\n")[0], [fenced(asked.subject)]
            kind, options = kind_of(asked.tool), _decisions(can_be_always=asked.can_be_always)
        else:
            title, content, kind = asked.question, [], "other"
            options = [
                *(_option(str(n), name, "allow_once") for n, name in enumerate(asked.choices, 1)),
                _option(_WORDS, "Answer in words", "reject_once"),
            ]
        call = ToolCallUpdate(
            tool_call_id=asked.call_id, title=title, kind=kind, status="pending", content=[*content]
        )
        response = await self.editor.client.request_permission(
            session_id=self.editor.session_id, tool_call=call, options=options
        )
        chosen = response.outcome
        return chosen.option_id if chosen.outcome == "selected" else None

    async def _ask_in_words(self, question: Question) -> None:
        """End the prompts of the turn, which waits: the next prompt has the answer."""
        self._in_words = question
        for text, _ in question.lines:
            for update in answer(f"\n\n{text}"):
                await self.editor.update(update)
        for prompt in self._prompts.values():
            if prompt.turn_id == question.turn_id:
                _resolve(prompt, "end_turn")


def _resolve(prompt: _Prompt, reason: StopReason) -> None:
    if not prompt.done.done():
        prompt.done.set_result(reason)


def _decisions(*, can_be_always: bool) -> list[PermissionOption]:
    always = [_option("always", "Always allow this command", "allow_always")]
    return [
        _option("once", "Allow once", "allow_once"),
        _option("session", "Allow in this session", "allow_always"),
        *(always if can_be_always else ()),
        _option("deny", "Deny", "reject_once"),
    ]


def _option(option_id: str, name: str, kind: PermissionOptionKind) -> PermissionOption:
    return PermissionOption(option_id=option_id, name=name, kind=kind)
