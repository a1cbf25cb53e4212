"""Logging in: a code that a person confirms in a browser, and what is kept when that is done."""

from agent_service.oauth.errors import LoginFailed, LoginUnavailable
from agent_service.oauth.issuer import Asked, Issuer, Wait
from agent_service.oauth.store import LoginStore
from agent_service.oauth.tokens import Login
from services.clock import Clock
from services.errors import Unavailable
from services.lifecycle import unbroken

SLOWER_S = 5.0
"""By how much the provider is asked less often each time that it wants that (RFC 8628)."""
KEEP_TRIES, KEEP_WAIT_S = 10, 1.0
_SHORTEST_S, _LONGEST_S = 1.0, 60.0


async def confirmed(issuer: Issuer, asked: Asked, clock: Clock) -> Login:
    """Wait until the code has been confirmed; LoginFailed when it was refused or has expired.

    A provider that cannot be asked for a while is asked again until the code ends.
    """
    pause_s = max(asked.interval_s, _SHORTEST_S)
    while clock.now() < asked.shown.expires_at:
        await clock.sleep(pause_s)
        try:
            found = await issuer.poll(asked)
        except LoginUnavailable:
            found = Wait.SLOWER
        if isinstance(found, Login):
            return found
        if found is Wait.SLOWER:
            pause_s = min(pause_s + SLOWER_S, _LONGEST_S)
    raise LoginFailed("The code has expired before anybody confirmed it: begin anew")


async def keep(issuer: Issuer, login: Login, store: LoginStore, clock: Clock) -> Login:
    """Keep a login in place of any before it, which is of no use afterwards.

    A place that is away for a moment is waited for: nobody likes to confirm a second code.
    """
    for _ in range(KEEP_TRIES - 1):
        try:
            before = await _put(issuer, login, store, clock)
            break
        except Unavailable:
            await clock.sleep(KEEP_WAIT_S)
    else:
        before = await _put(issuer, login, store, clock)
    if before is not None and before.refresh != login.refresh:
        await issuer.revoke(before)
    return login


async def _put(issuer: Issuer, login: Login, store: LoginStore, clock: Clock) -> Login | None:
    """Keep a login; returns the one before it."""
    async with store.locked():
        before = await store.read(issuer)
        await unbroken(store.keep(issuer, login, clock.now()))
    return before


async def forget(issuer: Issuer, store: LoginStore, clock: Clock) -> tuple[bool, bool]:
    """Forget the login: whether there was one, and whether the provider knows that it is over."""
    async with store.locked():
        login = await store.read(issuer)
        if login is None:
            return False, False
        await unbroken(store.forget(issuer, clock.now()))
    return True, await issuer.revoke(login)
