"""Completes slash commands and the words behind them, as the gateway knows them."""

from collections.abc import Iterator, Sequence

import grpc.aio
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.gateway.v1.conversation_pb2 import ListCommandsRequest, SlashCommand
from hermes.gateway.v1.conversation_pb2_grpc import ConversationServiceStub

WAIT_S = 5.0
"""How long the list is waited for; nobody waits with it."""


class CommandCompleter(Completer):
    """Completes what is typed; nothing before the list is there."""

    def __init__(self) -> None:
        self._known: Sequence[SlashCommand] = ()

    async def learn(self, gateway: grpc.aio.Channel, profile: str) -> None:
        """Ask for the commands; where that fails, what was known stays."""
        stub = ConversationServiceStub(gateway)
        try:
            answer = await stub.ListCommands(ListCommandsRequest(profile=profile), timeout=WAIT_S)
        except grpc.aio.AioRpcError:
            return
        self.know(answer.commands)

    def know(self, commands: Sequence[SlashCommand]) -> None:
        """Complete these from now on."""
        self._known = tuple(commands)

    def is_command(self, line: str) -> bool:
        """Whether a line says one of the commands."""
        first = line.lstrip().partition(" ")[0].lower()
        return first.startswith("/") and any(first[1:] == each.name for each in self._known)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """What may be meant by the line up to the cursor."""
        typed = document.text_before_cursor.lstrip()
        if not typed.startswith("/"):
            return
        name, space, rest = typed[1:].partition(" ")
        if not space:
            # Skills have hyphens, which their commands have not.
            wanted = name.lower().replace("-", "_")
            for each in self._known:
                if each.name.startswith(wanted):
                    yield Completion(
                        f"/{each.name}",
                        start_position=-len(typed),
                        display_meta=" ".join(each.help.split()),
                    )
            return
        words = next((each.words for each in self._known if each.name == name.lower()), ())
        for word in words:
            if " " not in rest and word.startswith(rest.lower()):
                yield Completion(word, start_position=-len(rest))
