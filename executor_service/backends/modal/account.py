"""Access to Modal: its SDK, a client with our token, and the images of sandboxes.

Errors of the SDK become ours here. The SDK is imported in a thread when it is first needed; its
asynchronous calls run on an event loop of its own.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from executor_service.backends.bridge import PYTHON
from executor_service.backends.modal import start as modal_start
from executor_service.backends.modal.stream import Calls, Failures
from executor_service.backends.supervisor_zipapp import PROGRAM, install_supervisor
from executor_service.config import ModalConfig
from executor_service.errors import BackendUnavailable, EngineRefused
from services.lifecycle import Workers

if TYPE_CHECKING:
    import modal
    from modal.container_process import ContainerProcess

CALL_DEADLINE_S = 30.0
LONGEST_LIFE_S = 24 * 3600
"""Modal's own maximum."""
PLACE = "/opt/hermes"
"""Where sandboxes have the supervisor."""
SUPERVISOR = (*PYTHON, f"{PLACE}/{PROGRAM}")
_HELLO_DEADLINE_S = 15.0
_BUILD_DEADLINE_S = 900.0
_LAST_WORDS_DEADLINE_S = 5.0
_LOOK_EVERY_S = 1.0
"""How often to check whether a silent sandbox still lives."""
_T = TypeVar("_T")
_LOGGERS_OF_THE_SDK = ("modal-client", "modal-utils")
_PACKAGES = (
    *("ca-certificates", "curl", "file", "git", "jq", "less", "patch", "procps"),
    *("ripgrep", "unzip", "xz-utils"),
)
"""What our own image adds to Debian's smallest and Python."""


class Opened(Struct, frozen=True):
    """What every call needs."""

    client: "modal.Client"
    app: "modal.App"


class Built(Struct, frozen=True):
    """An image at Modal, with the supervisor in it."""

    image: "modal.Image"
    start: str
    """The text of the program that becomes the supervisor."""


class ModalAccount:
    """One client of Modal, opened by the first call that needs it."""

    def __init__(self, options: ModalConfig, supervisor: bytes, folder: Path) -> None:
        self.options = options
        self.failures: Failures = (OSError,)
        """What the SDK may raise; complete once it is loaded."""
        self._supervisor = supervisor
        self._folder = folder
        self._opening = asyncio.Lock()
        self._building = asyncio.Lock()
        self._client: modal.Client | None = None
        self._opened: Opened | None = None
        self._built: Built | None = None
        self.calls = Calls()
        self.workers = Workers()
        """Side jobs of streams."""

    async def open(self) -> Opened:
        """Return the client and the app; fails with BackendUnavailable."""
        async with self._opening:
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    async def _open(self) -> Opened:
        options = self.options
        token = (options.token_id.get_secret_value(), options.token_secret.get_secret_value())
        if not all(token):
            raise BackendUnavailable(
                "no token of Modal: make one at modal.com/settings/tokens and set MODAL_TOKEN_ID "
                "and MODAL_TOKEN_SECRET"
            )
        try:
            self.failures = await asyncio.to_thread(_load)
        except ImportError as error:
            raise BackendUnavailable(
                f"Modal's SDK cannot be loaded ({error}): pip install 'hermes-services[modal]'"
            ) from error
        from modal import App, Client
        from modal_proto.api_pb2 import CLIENT_TYPE_CLIENT

        async with self.answering(_HELLO_DEADLINE_S):
            if self._client is None:
                # Client.from_credentials would take the server from the environment.
                opening = Client(options.server_url, CLIENT_TYPE_CLIENT, token)
                await opening.__aenter__()
                self._client = opening
            client = self._client
            await client.hello.aio()
            app = await App.lookup.aio(
                options.app,
                client=client,
                environment_name=options.environment or None,
                create_if_missing=True,
            )
        return Opened(client, app)

    async def image(self) -> Built:
        """Return the image with the supervisor; the first call builds and sends it."""
        opened, reference = await self.open(), self.options.image
        async with self._building:
            if self._built is None:
                folder = await asyncio.to_thread(self._unpack)
                start = await asyncio.to_thread(inspect.getsource, modal_start)
                async with self.answering(_BUILD_DEADLINE_S):
                    image = await asyncio.to_thread(_describe, reference, folder, opened.client)
                    await image.build.aio(opened.app)
                self._built = Built(image, start)
            return self._built

    def _unpack(self) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return install_supervisor(self._supervisor, self._folder, PLACE)

    async def sandboxes(self, tags: dict[str, str]) -> list["modal.Sandbox"]:
        opened = await self.open()
        from modal import Sandbox

        try:
            async with self.answering(CALL_DEADLINE_S):
                found = Sandbox.list.aio(app_id=opened.app.app_id, tags=tags, client=opened.client)
                return [sandbox async for sandbox in found]
        except EngineRefused as error:
            raise self._silent(str(error)) from error

    async def run(
        self, sandbox_id: str, argv: tuple[str, ...], timeout_s: int, deadline_s: float
    ) -> tuple["modal.Sandbox", "ContainerProcess[bytes]"]:
        """Start a command in a sandbox, over a connection of its own; EngineRefused if it ended.

        timeout_s limits the command, deadline_s its start.
        """
        opened = await self.open()
        from modal import Sandbox

        async with self.answering(deadline_s):
            finding = Sandbox.from_id.aio(sandbox_id, client=opened.client)
            sandbox = await self.calls.wait_for(finding)
            _must_live(sandbox.returncode)
            starting = sandbox.exec.aio(*argv, text=False, timeout=timeout_s)
            try:
                process = await self._while_living(sandbox, starting)
            except self.failures:
                _must_live(await self.calls.wait_for(sandbox.poll.aio()))
                raise
        return sandbox, process

    async def _while_living(self, sandbox: "modal.Sandbox", call: Awaitable[_T]) -> _T:
        """Return a call's result unless its sandbox ends, which the SDK notices 10 seconds late."""
        calling = asyncio.ensure_future(self.calls.wait_for(call))
        try:
            while not (await asyncio.wait({calling}, timeout=_LOOK_EVERY_S))[0]:
                _must_live(await self.calls.wait_for(sandbox.poll.aio()))
        finally:
            calling.cancel()
        return await calling

    async def last_words(self, sandbox_id: str) -> str:
        """Return a sandbox's last standard error, as far as Modal tells."""
        opened = await self.open()
        from modal import Sandbox

        with contextlib.suppress(BackendUnavailable, EngineRefused):
            async with self.answering(_LAST_WORDS_DEADLINE_S):
                sandbox = await Sandbox.from_id.aio(sandbox_id, client=opened.client)
                said = (await sandbox.stderr.read.aio()).strip().splitlines()
                await sandbox.detach.aio()
            return said[-1] if said else ""
        return ""

    @contextlib.asynccontextmanager
    async def answering(self, deadline_s: float) -> AsyncGenerator[None]:
        """Turn what the SDK raises into our errors: EngineRefused, BackendUnavailable."""
        try:
            async with asyncio.timeout(deadline_s):
                yield
        except TimeoutError as error:
            raise self._silent(f"no answer within {deadline_s:g} s") from error
        except self.failures as error:
            raise self._ours(error) from error

    def _ours(self, error: Exception) -> EngineRefused | BackendUnavailable:
        from modal import exception

        what = str(error).strip() or type(error).__name__
        if isinstance(error, exception.AuthError | exception.PermissionDeniedError):
            return BackendUnavailable(
                f"Modal does not accept the token ({what}): check MODAL_TOKEN_ID and "
                "MODAL_TOKEN_SECRET"
            )
        if isinstance(error, exception.NotFoundError):
            return EngineRefused(HTTPStatus.NOT_FOUND, what)
        if isinstance(error, exception.ConflictError | exception.SandboxTimeoutError):
            return EngineRefused(HTTPStatus.GONE, what)
        if isinstance(error, exception.InvalidError | exception.RemoteError):
            return EngineRefused(HTTPStatus.BAD_REQUEST, what)
        return self._silent(what)

    def _silent(self, why: str) -> BackendUnavailable:
        return BackendUnavailable(f"Modal at {self.options.server_url} does not serve: {why}")

    async def close(self) -> None:
        async with self.workers:
            await self.workers.drain(CALL_DEADLINE_S)
        client, self._client, self._opened = self._client, None, None
        if client is not None:
            with contextlib.suppress(*self.failures):
                async with asyncio.timeout(CALL_DEADLINE_S):
                    await client.close.aio()


def _load() -> Failures:
    """Import the SDK, which is slow; return what its calls may raise."""
    from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
    from modal.exception import Error

    for name in _LOGGERS_OF_THE_SDK:
        # Its log records go through our handlers instead of its own.
        logger = logging.getLogger(name)
        for handler in logger.handlers.copy():
            logger.removeHandler(handler)
    return (Error, GRPCError, ProtocolError, StreamTerminatedError, OSError)


def _must_live(status: int | None) -> None:
    """Refuse a sandbox that has ended: 124 at its deadline, 137 if it was terminated."""
    if status is not None:
        raise EngineRefused(HTTPStatus.GONE, f"it ended with status {status}")


def _describe(reference: str, supervisor: Path, client: "modal.Client") -> "modal.Image":
    from modal import Image

    base: Any
    if reference.startswith("im-"):
        base = Image.from_id(reference, client=client)
    elif reference:
        base = Image.from_registry(reference)
    else:
        base = Image.debian_slim().apt_install(*_PACKAGES)
    # Not copied into the image: Modal stores files by their digest, sends them once, and needs no
    # new image for each of our versions.
    return base.add_local_dir(supervisor, PLACE)
