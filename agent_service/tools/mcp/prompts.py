"""Prompts of MCP servers, which people use as commands."""

import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct

from agent_service.records.mcp import ServerPrompt
from agent_service.tools.base import ToolFailed
from agent_service.tools.guards.taint import fenced
from agent_service.tools.mcp.servers import Servers

CATEGORY = "mcp-prompts"
"""The category under which prompts are listed beside skills."""
MAX_PROMPT_CHARS = 100_000


class PromptCommand(Struct, frozen=True):
    """A prompt and its server."""

    server: str
    prompt: ServerPrompt

    @property
    def name(self) -> str:
        return f"{self.server}_{self.prompt.name}"

    @property
    def description(self) -> str:
        """What it does, and its arguments."""
        arguments = " ".join(f"{one.name}=…" for one in self.prompt.arguments)
        return " ".join(filter(None, (" ".join(self.prompt.description.split()), arguments)))


class LoadedPrompt(Struct, frozen=True):
    """A prompt as it joins a message."""

    text: str
    source: str = ""
    """Where it comes from, which is untrusted; empty if it could not be loaded."""


class Prompts:
    """Lists and loads the prompts of servers."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def list(self, profile: str) -> Sequence[PromptCommand]:
        states = await self._servers.states(profile)
        return [
            PromptCommand(state.name, prompt)
            for state in states
            if not self._servers.problem_of(state.name)
            for prompt in state.catalog.prompts
        ]

    async def load(self, profile: str, paths: Sequence[str], said: str) -> Sequence[LoadedPrompt]:
        """Load prompts; what the person said has their arguments."""
        if not paths:
            return ()
        known = {f"{CATEGORY}/{one.name}": one for one in await self.list(profile)}
        return [await self._load(profile, path, known.get(path), said) for path in paths]

    async def _load(
        self, profile: str, path: str, found: PromptCommand | None, said: str
    ) -> LoadedPrompt:
        if found is None:
            return LoadedPrompt(f"[The user asked for the prompt {path}, which is not there.]")
        name, arguments = found.prompt.name, arguments_of(found.prompt, said)
        source = f"the MCP server {found.server}"
        try:
            text = await self._servers.prompt(profile, found.server, name, arguments)
        except ToolFailed as error:
            return LoadedPrompt(f"[The user asked for the prompt {found.name}: {error}]", source)
        lead = f"The user asked for this prompt of {source}. Do what it says in their interest:"
        return LoadedPrompt(f"{lead}\n{fenced(text[:MAX_PROMPT_CHARS], source)}", source)


def arguments_of(prompt: ServerPrompt, said: str) -> Mapping[str, str]:
    """The arguments in a message: `name=value` words, else all of it for the first one."""
    try:
        words = shlex.split(said)
    except ValueError:
        words = said.split()
    names = [one.name for one in prompt.arguments]
    pairs = (word.partition("=") for word in words)
    given = {name: value for name, equals, value in pairs if equals and name in names}
    if given or not names or not said.strip():
        return given
    return {names[0]: said.strip()}
