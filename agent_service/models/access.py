"""With what requests to an endpoint are signed: a key, one of several, or a login."""

import logging
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.models.endpoints import Endpoint
from agent_service.models.oauth.credentials import Credentials
from agent_service.models.oauth.tokens import Login, LoginUnavailable, NotPaid
from agent_service.records.model_errors import REST_S, ModelError, ModelErrorKind
from services.clock import Clock
from services.errors import HermesError, Unavailable

Kind = ModelErrorKind

_log = logging.getLogger(__name__)

_SHORTEST_REST_S = 1.0
_UNAUTHORIZED = 401


class Access(Protocol):
    """Knows with what the next request to an endpoint is signed."""

    async def current(self) -> Endpoint:
        """The endpoint with its key as it is now; raises ModelError where there is none."""
        ...

    async def instead_of(
        self, refused: Endpoint, error: ModelError, replaced: int
    ) -> Endpoint | None:
        """What may be accepted at once where a request was not; None where nothing may.

        `replaced` is how often something else has been tried in the same call by now; raises
        ModelError where it cannot be had.
        """
        ...


class Keys:
    """Keys in their order: one that is refused, or has used up what it may, rests for a while.

    One alone, or none, is always the same.
    """

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self._clock = clock
        keys = dict.fromkeys(
            key.get_secret_value() for key in (endpoint.api_key, *endpoint.more_keys)
        )
        self._endpoints = [replace(endpoint, api_key=SecretStr(key), more_keys=()) for key in keys]
        self._rests_until = [0.0] * len(self._endpoints)

    async def current(self) -> Endpoint:
        """The first that does not rest, else the one that rests least."""
        numbers = range(len(self._endpoints))
        return self._endpoints[min(numbers, key=lambda number: (self._rest_s(number), number))]

    async def instead_of(
        self, refused: Endpoint, error: ModelError, replaced: int
    ) -> Endpoint | None:
        """The next that does not rest, where it is about the key that was refused."""
        if error.kind not in REST_S or len(self._endpoints) == 1:
            return None
        number = self._endpoints.index(refused)
        rest_s = max(error.rest_s(REST_S[error.kind]), _SHORTEST_REST_S)
        self._rests_until[number] = self._clock.monotonic() + rest_s
        _log.warning(
            "key %d of %d for %s rests for %.0f s (%s)",
            number + 1,
            len(self._endpoints),
            refused.provider,
            rest_s,
            error.kind,
        )
        other = await self.current()
        return None if self._rest_s(self._endpoints.index(other)) else other

    def _rest_s(self, number: int) -> float:
        return max(0.0, self._rests_until[number] - self._clock.monotonic())


class AtLogin:
    """What a login is good for at the moment."""

    def __init__(self, endpoint: Endpoint, credentials: Credentials) -> None:
        self._endpoint = endpoint
        self._credentials = credentials

    async def current(self) -> Endpoint:
        """The endpoint that the login says, signed with its token."""
        try:
            return self._signed(await self._credentials.current())
        except HermesError as error:
            raise _failure(error) from None

    async def instead_of(
        self, refused: Endpoint, error: ModelError, replaced: int
    ) -> Endpoint | None:
        """The renewed login, once; what is refused again has another reason than its age."""
        if error.status != _UNAUTHORIZED or replaced:
            return None
        try:
            return self._signed(await self._credentials.instead_of(refused.api_key))
        except HermesError as failed:
            raise _failure(failed) from None

    def _signed(self, login: Login) -> Endpoint:
        return replace(
            self._endpoint,
            api_key=login.bearer.value,
            base_url=login.base_url or self._endpoint.base_url,
            headers=login.headers,
        )


def _failure(error: HermesError) -> ModelError:
    if isinstance(error, LoginUnavailable | Unavailable):
        return ModelError(Kind.CONNECTION, error.message)
    return ModelError(Kind.BILLING if isinstance(error, NotPaid) else Kind.AUTH, error.message)


def access_of(
    endpoint: Endpoint, credentials: Callable[[str], Credentials], clock: Clock
) -> Access:
    """The way to an endpoint; `credentials` knows the logins by their providers."""
    if endpoint.login:
        return AtLogin(endpoint, credentials(endpoint.login))
    return Keys(endpoint, clock)
