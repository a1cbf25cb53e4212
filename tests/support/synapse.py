"""A real Matrix homeserver on loopback, and people on it who write in encrypted rooms."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import nio
from nio.store import SqliteStore
from ruamel.yaml import YAML

from tests.support.ports import free_port
from tests.support.requirements import require

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_PYTHON = _CACHE / "hermes-tests" / "synapse" / "bin" / "python"
START_S = 50.0
SERVER = "hermes.test"
PASSWORD = "pass"
_FREELY = {"per_second": 10_000, "burst_count": 10_000}


@asynccontextmanager
async def synapse(folder: Path) -> AsyncGenerator[str]:
    """Run Synapse until the context is left; yields its URL."""
    installed = await asyncio.to_thread(_PYTHON.exists)
    require("synapse", installed, "tests/matrix/make-synapse installs it")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    await asyncio.to_thread(_write_settings, folder, port)
    log = await asyncio.to_thread((folder / "synapse.log").open, "wb")
    argv = (str(_PYTHON), "-m", "synapse.app.homeserver", "-c", str(folder / "homeserver.yaml"))
    made = await asyncio.create_subprocess_exec(*argv, "--generate-keys", stdout=log, stderr=log)
    assert await made.wait() == 0, await asyncio.to_thread((folder / "synapse.log").read_text)
    process = await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log)
    try:
        async with asyncio.timeout(START_S), aiohttp.ClientSession() as client:
            await _answers(client, url, process)
        yield url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        log.close()


class Person:
    """Somebody with an account and a device."""

    def __init__(self, client: nio.AsyncClient) -> None:
        self.client = client

    @property
    def id(self) -> str:
        return self.client.user_id

    async def sync(self, timeout_ms: int = 0) -> None:
        await self.client.sync(timeout_ms)
        for is_due, exchange in (
            (self.client.should_upload_keys, self.client.keys_upload),
            (self.client.should_query_keys, self.client.keys_query),
        ):
            if is_due:
                await exchange()

    async def invite(self, *others: str, encrypted: bool = False, direct: bool = True) -> str:
        """Make a room and return its id."""
        lock = nio.EnableEncryptionBuilder().as_dict()
        answer = await self.client.room_create(
            invite=others, is_direct=direct, initial_state=[lock] if encrypted else []
        )
        assert isinstance(answer, nio.RoomCreateResponse), answer
        return answer.room_id

    async def until_joined(self, room_id: str, other: str) -> None:
        """Wait until somebody has accepted an invitation."""
        while True:
            await self.sync(1000)
            answer = await self.client.joined_members(room_id)
            assert isinstance(answer, nio.JoinedMembersResponse), answer
            if any(member.user_id == other for member in answer.members):
                return

    async def say(self, room_id: str, text: str, **content: Any) -> str:
        body = {"msgtype": "m.text", "body": text, **content}
        await self.sync()
        answer = await self.client.room_send(
            room_id, "m.room.message", body, ignore_unverified_devices=True
        )
        assert isinstance(answer, nio.RoomSendResponse), answer
        return answer.event_id

    async def read(self, room_id: str) -> Mapping[str, dict[str, Any]]:
        """Return what others have written, as it is now, by id."""
        await self.sync()
        page = await self.client.room_messages(room_id, limit=100)
        assert isinstance(page, nio.RoomMessagesResponse), page
        found = dict[str, dict[str, Any]]()
        for event in reversed(page.chunk):
            is_locked = isinstance(event, nio.MegolmEvent)
            raw: dict[str, Any] = (self.client.decrypt_event(event) if is_locked else event).source
            if raw["sender"] == self.id or raw["type"] != "m.room.message":
                continue
            relation: dict[str, str] = raw["content"].get("m.relates_to", {})
            if relation.get("rel_type") == "m.replace":
                found[relation["event_id"]] = raw["content"]["m.new_content"]
            else:
                found[raw["event_id"]] = raw["content"]
        return found


@asynccontextmanager
async def person(url: str, name: str, store: Path) -> AsyncGenerator[Person]:
    """Register somebody; their keys are in a folder."""
    await asyncio.to_thread(store.mkdir, exist_ok=True)
    options = nio.AsyncClientConfig(encryption_enabled=True, store=SqliteStore)
    client = nio.AsyncClient(url, name, store_path=str(store), config=options)
    try:
        answer = await client.register(name, PASSWORD)
        assert isinstance(answer, nio.RegisterResponse), answer
        client.load_store()
        made = Person(client)
        await made.sync()
        yield made
    finally:
        await client.close()


async def make_account(url: str, name: str) -> tuple[str, str]:
    """Register an account; return its id and its access token."""
    client = nio.AsyncClient(url, name)
    try:
        answer = await client.register(name, PASSWORD)
        assert isinstance(answer, nio.RegisterResponse), answer
        return answer.user_id, answer.access_token
    finally:
        await client.close()


async def _answers(
    client: aiohttp.ClientSession, url: str, process: asyncio.subprocess.Process
) -> None:
    while True:
        assert process.returncode is None, "Synapse has ended; its log has why"
        try:
            async with client.get(f"{url}/health") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            await asyncio.sleep(0.1)


def _write_settings(folder: Path, port: int) -> None:
    listener = {
        "port": port,
        "bind_addresses": ["127.0.0.1"],
        "type": "http",
        "resources": [{"names": ["client"]}],
    }
    settings = {
        "server_name": SERVER,
        "pid_file": str(folder / "synapse.pid"),
        "signing_key_path": str(folder / "signing.key"),
        "media_store_path": str(folder / "media"),
        "listeners": [listener],
        "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
        "enable_registration": True,
        "enable_registration_without_verification": True,
        "trusted_key_servers": list[str](),
        "federation_domain_whitelist": list[str](),
        "report_stats": False,
        "rc_message": _FREELY,
        "rc_room_creation": _FREELY,
        "rc_registration": _FREELY,
        "rc_login": dict.fromkeys(("address", "account", "failed_attempts"), _FREELY),
        "rc_joins": dict.fromkeys(("local", "remote"), _FREELY),
        "rc_invites": dict.fromkeys(("per_room", "per_user", "per_issuer"), _FREELY),
    }
    with (folder / "homeserver.yaml").open("w") as file:
        YAML().dump(settings, file)
