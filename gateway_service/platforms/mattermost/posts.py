"""Mattermost's API, version 4, and its posts as events."""

import re
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gateway_service.errors import MessageGone, PlatformError, Refused
from gateway_service.messages import MessageEvent, Reaction, RemoteFile, Source, find_kind
from gateway_service.platforms.base import THUMBS, Json, Recent
from gateway_service.platforms.http_api import CALL_S, HttpApi

if TYPE_CHECKING:
    from aiohttp import ClientResponse

NAME = "mattermost"
MOST_KNOWN = 5000
"""How many people, channels and threads are remembered before they are asked for anew."""

_DIRECT = "D"


class MattermostApi(HttpApi):
    """Calls of one bot."""

    wait_header = "X-Ratelimit-Reset"

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        super().__init__("mattermost", f"{url.rstrip('/')}/api/v4", headers, "MATTERMOST_TOKEN")

    async def get(self, path: str) -> Any:
        return await self.call("GET", path)

    async def upload(self, channel_id: str, name: str, data: bytes) -> str:
        """Upload a file for a channel and return its id."""
        from aiohttp import FormData

        form = FormData({"channel_id": channel_id})
        form.add_field("files", BytesIO(data), filename=name)
        answer = await self.call("POST", "/files", CALL_S * 4, data=form)
        return answer["file_infos"][0]["id"]

    def refusal(self, answer: "ClientResponse", body: Mapping[str, Any]) -> PlatformError:
        found = super().refusal(answer, body)
        if not isinstance(found, Refused):
            return found
        kind = MessageGone if answer.status == 404 else Refused
        return kind(f"{found.message} ({body.get('id')})")


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
        self._known = Recent[str, Any](MOST_KNOWN)

    async def read(self, post: Json, *, is_new: bool) -> MessageEvent | None:
        """Return a person's post if it is for us: direct, mentioning us, or in a thread of ours."""
        props: Json = post.get("props") or {}
        if post["type"] or post["delete_at"] or props.get("from_webhook") == "true":
            return None
        if post["user_id"] == self._me.id:
            return None
        channel = await self._find(f"/channels/{post['channel_id']}")
        is_meant = channel["type"] == _DIRECT or self._mention.search(post["message"])
        if not is_meant and not await self._is_ours(post):
            return None
        source = await self._source(post, post["user_id"])
        if source is None:
            return None
        event_id = post["id"]
        return MessageEvent(
            event_id if is_new else f"{event_id}:{post['edit_at']}",
            source,
            self._mention.sub("", post["message"]).strip(),
            replies_to=post["root_id"],
            files=_files(post),
            edits="" if is_new else event_id,
            message_id=event_id,
        )

    async def read_reaction(self, added: Json) -> Reaction | None:
        """Return a thumb that a person put on a post of ours."""
        emoji, person_id = THUMBS.get(added["emoji_name"].partition("_")[0]), added["user_id"]
        if emoji is None or person_id == self._me.id:
            return None
        post = await self._find(f"/posts/{added['post_id']}")
        if post["user_id"] != self._me.id:
            return None
        source = await self._source(post, person_id)
        event_id = f"{post['id']}:{person_id}:{added['create_at']}"
        return None if source is None else Reaction(event_id, source, post["id"], emoji)

    async def _source(self, post: Json, person_id: str) -> Source | None:
        channel = await self._find(f"/channels/{post['channel_id']}")
        person = await self._find(f"/users/{person_id}")
        is_direct, root_id = channel["type"] == _DIRECT, post["root_id"]
        if person.get("is_bot"):
            return None
        return Source(
            platform=NAME,
            chat_id=post["channel_id"],
            thread_id=root_id,
            user_id=person_id,
            user_name=person["username"],
            chat_type="dm" if is_direct else "thread" if root_id else "group",
            chat_name="" if is_direct else channel["name"],
        )

    async def _is_ours(self, post: Json) -> bool:
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
            found = self._known[path] = await self._api.get(path)
        return found


def _files(post: Json) -> tuple[RemoteFile, ...]:
    found: list[RemoteFile] = []
    metadata: Json = post.get("metadata") or {}
    for file in metadata.get("files") or ():
        mime = file.get("mime_type", "")
        about = file["id"], file.get("name", ""), mime, file.get("size", 0)
        found.append(RemoteFile(find_kind(mime), *about))
    return tuple(found)
