"""Describes a session's chat to the model."""

from collections.abc import Mapping

from agent_service.records.requests import quoted_name

_PLACES = {
    "dm": "a private chat",
    "group": "a group, where several people may write and all of them read what you answer",
    "channel": "a channel, where many people may read what you answer",
    "thread": "a thread, where several people may write and all of them read what you answer",
}


def describe_chat(origin: Mapping[str, str]) -> str:
    """The chat in a few lines; empty if nothing can be sent there, as to a terminal."""
    platform, chat = origin.get("platform", ""), origin.get("chat_id", "")
    if not chat or platform in ("cli", "api_server"):
        return ""
    address = ":".join(part for part in (platform, chat, origin.get("thread_id", "")) if part)
    place = _PLACES.get(origin.get("chat_type", ""), _PLACES["group"])
    name = quoted_name(origin.get("user_name", ""))
    return (
        f"# This chat\nIt is {address}, {place}."
        + (f" Who began this session goes by the name {name}." if name else "")
        + " Your answers go there by themselves; this is its name for tools that send elsewhere."
    )
