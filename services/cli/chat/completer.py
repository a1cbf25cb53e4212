"""Completes slash commands and their arguments from the gateway's list."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc.aio
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.gateway.v1.conversation_pb2 import ListCommandsRequest, SlashCommand
from hermes.gateway.v1.conversation_pb2_grpc import ConversationServiceStub

ALIASES = {"clear": "new", "compact": "compress", "cost": "usage"}
"""Other names of commands, where no skill has them."""
LOCAL = tuple(
    SlashCommand(name=name, help=told)
    for name, told in (
        ("edit", "write your message in your editor"),
        ("quit", "leave; the same as /exit"),
        ("exit", "leave"),
        *((alias, f"the same as /{name}") for alias, name in ALIASES.items()),
    )
)
"""Commands of the terminal."""
WAIT_S = 5.0
"""The timeout of the list, which loads in the background."""


class CommandCompleter(Completer):
    """Completes input once the list of commands is there."""

    def __init__(self) -> None:
        self._known: Sequence[SlashCommand] = LOCAL

    async def learn(self, gateway: grpc.aio.Channel, profile: str) -> None:
        """Fetch the commands; after a failure, the known ones stay."""
        stub = ConversationServiceStub(gateway)
        try:
            answer = await stub.ListCommands(ListCommandsRequest(profile=profile), timeout=WAIT_S)
        except grpc.aio.AioRpcError:
            return
        self.know(answer.commands)

    def know(self, commands: Sequence[SlashCommand]) -> None:
        names = {command.name for command in commands}
        self._known = (*commands, *(each for each in LOCAL if each.name not in names))

    def expand(self, line: str) -> str:
        first, space, rest = line.partition(" ")
        known = next((each for each in self._known if f"/{each.name}" == first.lower()), None)
        name = ALIASES.get(known.name) if known is not None and known in LOCAL else None
        return f"/{name}{space}{rest}" if name else line

    def is_command(self, line: str) -> bool:
        first = line.lstrip().partition(" ")[0].lower()
        return first.startswith("/") and any(first[1:] == each.name for each in self._known)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        word = document.get_word_before_cursor(WORD=True)
        if word.startswith("@"):
            yield from _paths(word[1:].removeprefix('"'))
            return
        typed = document.text_before_cursor.lstrip()
        if not typed.startswith("/"):
            return
        name, space, rest = typed[1:].partition(" ")
        if not space:
            # Skill names have hyphens, their commands have underscores.
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


def _paths(begun: str) -> Iterator[Completion]:
    """Yield the paths that begin so; hidden ones only after a dot."""
    folder, slash, name = begun.rpartition("/")
    try:
        found = sorted(Path(f"{folder}{slash}" or ".").expanduser().iterdir())
    except OSError:
        return
    for each in found:
        if each.name.startswith(name) and (name.startswith(".") or not each.name.startswith(".")):
            end = "/" if each.is_dir() else ""
            yield Completion(f"{each.name}{end}", start_position=-len(name))
