"""Mattermost's API, version 4."""

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from gateway_service.errors import MessageGone, PlatformError, Refused
from gateway_service.platforms.http_api import CALL_S, HttpApi

if TYPE_CHECKING:
    from aiohttp import ClientResponse


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
