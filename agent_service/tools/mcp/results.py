"""Results of MCP servers as text for the model. Imports the SDK's types, so it is imported late."""

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

import mcp_types as types
from msgspec import json

from agent_service.tools.base import Picture, ToolResult

_SHOWABLE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def render_call(result: types.CallToolResult) -> ToolResult:
    """A call's result; structured content stands in if there is nothing else."""
    text, pictures = "\n".join(map(_block, result.content)), tuple(_pictures(result.content))
    if not text and result.structured_content is not None:
        text = json.encode(result.structured_content).decode()
    return ToolResult(text or "[no output]", is_error=bool(result.is_error), pictures=pictures)


def _pictures(blocks: Iterable[Any]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, types.ImageContent) and block.mime_type in _SHOWABLE:
            try:
                yield Picture(b64decode(block.data, validate=True))
            except ValueError:
                continue


def render_resource(result: types.ReadResourceResult) -> str:
    """The contents of a resource."""
    return "\n".join(map(_contents, result.contents)) or "[empty]"


def render_resources(listed: Iterable[types.Resource | types.ResourceTemplate]) -> str:
    """A list of resources and of templates for them."""
    lines: list[str] = []
    for one in listed:
        uri = one.uri if isinstance(one, types.Resource) else one.uri_template
        lines.append(": ".join(filter(None, (str(uri), one.description or one.name))))
    return "\n".join(lines) or "There are no resources."


def render_prompt(result: types.GetPromptResult) -> str:
    """A prompt's messages as one text."""
    texts = [_block(message.content) for message in result.messages]
    roles = {message.role for message in result.messages}
    if roles <= {"user"}:
        return "\n\n".join(texts)
    said = zip(result.messages, texts, strict=True)
    return "\n\n".join(f"{message.role}: {text}" for message, text in said)


def _block(block: Any) -> str:
    match block:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(mime_type=kind, data=data):
            return f"[a picture, {kind}, {_size(data)}]"
        case types.AudioContent(mime_type=kind, data=data):
            return f"[a sound, {kind}, {_size(data)}, which cannot be played here]"
        case types.ResourceLink(uri=uri, description=description, name=name):
            return f"[resource {uri}: {description or name}]"
        case types.EmbeddedResource(resource=resource):
            return _contents(resource)
        case _:
            return f"[content of the type {getattr(block, 'type', 'unknown')}]"


def _contents(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(resource, types.TextResourceContents):
        return resource.text
    kind = resource.mime_type or "unknown type"
    return f"[resource {resource.uri}: {kind}, {_size(resource.blob)} of binary data]"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4:,} bytes"
