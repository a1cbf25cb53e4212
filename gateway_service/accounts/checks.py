"""The gateway's checks for `hermes doctor`."""

import asyncio
from importlib.util import find_spec
from secrets import token_hex

from gateway_service.accounts.builtin import make_access, make_platform
from gateway_service.chats.hooks.hooks import Hook, read_hooks
from gateway_service.commands.hermes import GREETING
from gateway_service.config import GatewayConfig
from gateway_service.errors import ChatMoved
from gateway_service.messages import Content
from gateway_service.platforms.api_config import ApiConfig
from gateway_service.platforms.base import Destination, HasCheck, Platform
from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Settings
from services.errors import HermesError
from services.home.paths import HomePaths
from services.runtime.checks import Check, Verdict

WAIT_S = 2.0
_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def check_api(config: ApiConfig) -> Check:
    """Say where the API is, and whether another program uses its port."""
    place = f"{config.host}:{config.port}"
    try:
        async with asyncio.timeout(WAIT_S):
            answer = await _ask(config)
    except ConnectionRefusedError:
        return Check("http", Verdict.OK, f"the API will be on {place} while Hermes runs")
    except (OSError, TimeoutError):
        answer = b""
    if b'{"status":"ok"}' in answer:
        return Check("http", Verdict.OK, f"the API is on {place}")
    text = f"{place} is not Hermes's: another program uses it; set API_SERVER_PORT to another port"
    return Check("http", Verdict.FAILED, text)


async def _ask(config: ApiConfig) -> bytes:
    reader, writer = await asyncio.open_connection(config.host, config.port)
    try:
        writer.write(_REQUEST)
        return await reader.read(4096)
    finally:
        writer.close()


CHECK_S = 10.0


async def checks(settings: Settings) -> list[Check]:
    """Check the HTTP API, the configured platforms and the hooks."""
    config = settings.load(GatewayConfig)
    used = [each for each in config.platforms if each.is_on]
    http = [await check_api(config.api)] if config.api.is_on else []
    begun = [each for each in config.platforms if each not in used and _lacks_some(each, settings)]
    incomplete = [Check(each.name, Verdict.NOTE, f"off; it needs {each.needs}") for each in begun]
    if not used and not http and not incomplete:
        text = "all off; `hermes setup` connects one, such as Telegram"
        return [Check("platforms", Verdict.NOTE, text)]
    platforms = [await check_platform(each, settings.home, config) for each in used]
    hooks = await asyncio.to_thread(read_hooks, settings.home.hooks)
    return [*http, *platforms, *incomplete, *(_check_hook(hook) for hook in hooks if hook.problem)]


def _lacks_some(config: PlatformConfig, settings: Settings) -> bool:
    """Return whether somebody has begun to configure a platform."""
    if config.enabled is not None:
        return False
    return any(
        settings.variable(name) or settings.secret_file(name) for name in config.variables_needed
    )


def _check_hook(hook: Hook) -> Check:
    return Check("hooks", Verdict.NOTE, f"{hook.name} is not used: {hook.problem}")


async def check_platform(config: PlatformConfig, home: HomePaths, gateway: GatewayConfig) -> Check:
    """Connect an account for a moment, and say whose it is and what it lacks."""
    name = config.name
    if config.package and find_spec(config.package) is None:
        text = f"its package is missing; install hermes-services[{name}]"
        return Check(name, Verdict.FAILED, text)
    try:
        async with asyncio.timeout(CHECK_S):
            told = await _connect(make_platform(config, home))
    except HermesError as error:
        return Check(name, Verdict.FAILED, error.message)
    except TimeoutError:
        return Check(name, Verdict.FAILED, f"{name} does not answer; try again later")
    if config.advice:
        return Check(name, Verdict.NOTE, f"{told}, but {config.advice}")
    access = make_access(config, gateway)
    if access.allow_all:
        text = f"{told}; everybody may talk to it and run its commands"
        return Check(name, Verdict.NOTE, text)
    if access.is_closed:
        variable = f"{config.variables}ALLOWED_USERS"
        text = f"{told}, but nobody may talk to it; set {variable}, or turn on pairing"
        return Check(name, Verdict.NOTE, text)
    return Check(name, Verdict.OK, told)


async def greet(settings: Settings, name: str) -> Check | None:
    """Write the first message of an account; None if it knows nobody to write to."""
    config = settings.load(GatewayConfig)
    account = next(each for each in config.platforms if each.name == name)
    if not (chat_id := account.first_chat):
        return None
    content, key = Content(f"{GREETING} Begin with /help."), token_hex(8)
    try:
        async with asyncio.timeout(CHECK_S), make_platform(account, settings.home) as platform:
            try:
                await platform.send(Destination(chat_id), content, key)
            except ChatMoved as moved:
                await platform.send(Destination(moved.new_chat_id), content, key)
    except (HermesError, TimeoutError) as error:
        why = error.message if isinstance(error, HermesError) else f"{name} does not answer"
        return Check(name, Verdict.NOTE, f"{chat_id} got no first message ({why}); write first")
    return Check(name, Verdict.OK, f"{chat_id} has got a first message")


async def _connect(platform: Platform) -> str:
    if isinstance(platform, HasCheck):
        return await platform.check()
    async with platform:
        return platform.identity
