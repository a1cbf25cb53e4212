"""Converts Mattermost's posts to events."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gateway_service.errors import MessageGone
from gateway_service.messages import FileKind, MessageEvent, RemoteFile, Source
from gateway_service.platforms.mattermost.api import MattermostApi

NAME = "mattermost"
MOST_KNOWN = 5000
"""How many people, channels and threads are remembered before they are asked for anew."""

_DIRECT = "D"
_KINDS = {"image": FileKind.IMAGE, "audio": FileKind.AUDIO, "video": FileKind.VIDEO}

Post = Mapping[str, Any]


class Person(Struct, frozen=True):
    """A user of the server."""

    id: str
    username: str
    is_bot: bool


class PostReader:
    """Reads posts as their bot; asks the server for whom and what it does not know yet."""

    def __init__(self, api: MattermostApi, me: Person) -> None:
        self._api = api
        self._me = me
        name = re.escape(me.username)
        self._mention = re.compile(rf"(?<![\w@.-])@{name}(?![\w-]|\.\w)", re.IGNORECASE)
        self._known = dict[str, Any]()

    async def read(self, post: Post, *, is_new: bool) -> MessageEvent | None:
        """Return a person's post if it is for us: direct, mentioning us, or in a thread of ours."""
        props: Mapping[str, Any] = post.get("props") or {}
        if post["type"] or post["delete_at"] or props.get("from_webhook") == "true":
            return None
        if post["user_id"] == self._me.id:
            return None
        channel = await self._find(f"/channels/{post['channel_id']}")
        is_direct = channel["type"] == _DIRECT
        if not (is_direct or self._mention.search(post["message"]) or await self._is_ours(post)):
            return None
        person = await self._find(f"/users/{post['user_id']}")
        if person.get("is_bot"):
            return None
        event_id, root_id = post["id"], post["root_id"]
        source = Source(
            platform=NAME,
            chat_id=post["channel_id"],
            thread_id=root_id,
            user_id=post["user_id"],
            user_name=person["username"],
            chat_type="dm" if is_direct else "thread" if root_id else "group",
            chat_name="" if is_direct else channel["name"],
        )
        return MessageEvent(
            event_id if is_new else f"{event_id}:{post['edit_at']}",
            source,
            self._mention.sub("", post["message"]).strip(),
            replies_to=root_id,
            files=_files(post),
            edits="" if is_new else event_id,
            message_id=event_id,
        )

    async def _is_ours(self, post: Post) -> bool:
        """Return whether we began a post's thread."""
        if not post["root_id"]:
            return False
        try:
            root = await self._find(f"/posts/{post['root_id']}")
        except MessageGone:
            return False
        return root["user_id"] == self._me.id

    async def _find(self, path: str) -> Any:
        found = self._known.get(path)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[path] = await self._api.get(path)
        return found


def _files(post: Post) -> tuple[RemoteFile, ...]:
    found: list[RemoteFile] = []
    metadata: Mapping[str, Any] = post.get("metadata") or {}
    for file in metadata.get("files") or ():
        mime = file.get("mime_type", "")
        kind = _KINDS.get(mime.partition("/")[0], FileKind.DOCUMENT)
        about = file["id"], file.get("name", ""), mime, file.get("size", 0)
        found.append(RemoteFile(kind, *about))
    return tuple(found)
