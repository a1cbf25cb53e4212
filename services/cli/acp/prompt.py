"""What an editor sends as a prompt: words, and files that go with them."""

import asyncio
import base64
import binascii
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import acp
import acp.interfaces
from acp.schema import (
    AudioContentBlock,
    ClientCapabilities,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)
from msgspec import Struct

from services.cli.acp.updates import Folder
from services.errors import InvalidArgument
from services.home.message_files import Attachment
from services.rpc.uploads import MAX_BYTES

TEXT = "text/plain"


class Prompt(Struct, frozen=True):
    """A message to the agent."""

    text: str
    files: Sequence[Attachment] = ()


class Editor(Struct, frozen=True):
    """The editor, and what it offers for a session."""

    client: acp.interfaces.Client
    capabilities: ClientCapabilities
    session_id: str

    async def update(self, update: Any) -> None:
        """Show something in the session."""
        await self.client.session_update(session_id=self.session_id, update=update)

    async def read(self, path: Path) -> bytes | None:
        """Return the text of a file as the editor has it, with unsaved changes; None: it cannot."""
        if not (self.capabilities.fs and self.capabilities.fs.read_text_file):
            return None
        try:
            read = await self.client.read_text_file(path=str(path), session_id=self.session_id)
        except acp.RequestError:
            return None
        return read.content.encode()

    async def run(self, command: str, folder: Path) -> str:
        """Run a command in a terminal of the editor; return what it printed, and how it ended."""
        client = self.client
        terminal = await client.create_terminal(
            self.session_id, "sh", ["-c", command], cwd=str(folder), output_byte_limit=OUTPUT_BYTES
        )
        named = {"session_id": self.session_id, "terminal_id": terminal.terminal_id}
        content = [acp.tool_terminal_ref(terminal.terminal_id)]
        started = acp.start_tool_call(
            terminal.terminal_id, command, kind="execute", status="in_progress", content=content
        )
        try:
            await self.update(started)
            ended = await client.wait_for_terminal_exit(**named)
            output = (await client.terminal_output(**named)).output
        except asyncio.CancelledError:
            await client.kill_terminal(**named)
            raise
        finally:
            await client.release_terminal(**named)
        status = "failed" if ended.exit_code else "completed"
        await self.update(acp.update_tool_call(terminal.terminal_id, status=status))
        return f"$ {command}\n{output.rstrip()}\n[exit code {ended.exit_code}]\n"


OUTPUT_BYTES = 100_000
"""How much of the output of a command in the editor's terminal joins the next message."""


async def read_prompt(blocks: Sequence[Any], editor: Editor, folder: Folder) -> Prompt:
    """Return the message of a prompt; InvalidArgument if a file cannot be read."""
    words, files = list[str](), list[Attachment]()
    for number, block in enumerate(blocks, 1):
        match block:
            case TextContentBlock():
                words.append(block.text)
            case ImageContentBlock() | AudioContentBlock():
                kind = "picture" if isinstance(block, ImageContentBlock) else "sound"
                ending = mimetypes.guess_extension(block.mime_type) or ""
                name = f"{kind}-{number}{ending}"
                files.append(Attachment(name, _decoded(block.data), block.mime_type))
            case EmbeddedResourceContentBlock():
                file = _embedded(block)
                files.append(file)
                words.append(f"`{file.name}`")
            case ResourceContentBlock():
                word, found = await _linked(block, editor, folder)
                words.append(word)
                files += found
            case _:
                pass
    return Prompt("".join(words), files)


def _embedded(block: EmbeddedResourceContentBlock) -> Attachment:
    resource = block.resource
    name = unquote(urlsplit(resource.uri).path).rstrip("/").rpartition("/")[2] or "resource"
    if isinstance(resource, TextResourceContents):
        # An empty file cannot be sent.
        return Attachment(name, resource.text.encode() or b"\n", resource.mime_type or TEXT)
    return Attachment(name, _decoded(resource.blob), resource.mime_type or _type_of(name))


async def _linked(
    block: ResourceContentBlock, editor: Editor, folder: Folder
) -> tuple[str, list[Attachment]]:
    """Return how the text names a link, and the file unless the sandbox has it as it is."""
    address = urlsplit(block.uri)
    if address.scheme != "file":
        return block.uri, []
    path = Path(unquote(address.path))
    inside = folder.inside(path)
    edited, saved = await editor.read(path), await asyncio.to_thread(_read, path)
    data = saved if edited is None else edited
    if inside is not None and data == saved:
        return f"`{inside}`", []
    if data is None:
        raise InvalidArgument(f"{path} cannot be read")
    remark = " (with changes that are not saved)" if inside is not None else ""
    file = Attachment(path.name, data or b"\n", block.mime_type or _type_of(path.name))
    return f"`{inside or path.name}`{remark}", [file]


def _read(path: Path) -> bytes | None:
    """Return what a file has; None if it is no file, or is too long."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise InvalidArgument("the prompt has data that is not Base64") from None


def _type_of(name: str) -> str:
    return mimetypes.guess_type(name)[0] or TEXT
