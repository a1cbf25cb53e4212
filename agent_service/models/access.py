"""How requests to an endpoint are signed: with a key, one of several keys, or a login."""

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
    """Knows how to sign the next request to an endpoint."""

    async def current(self) -> Endpoint:
        """The endpoint with its current key; raises ModelError if there is none."""
        ...

    async def instead_of(
        self, refused: Endpoint, error: ModelError, replaced: int
    ) -> Endpoint | None:
        """An alternative to try at once after a refusal; None if there is none.

        `replaced` counts the alternatives that the call has tried. Raises ModelError.
        """
        ...


class Keys:
    """Keys in order of preference; one of several rests after a refusal or when it is exhausted."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self._clock = clock
        keys = dict.fromkeys(
            key.get_secret_value() for key in (endpoint.api_key, *endpoint.more_keys)
        )
        self._endpoints = [replace(endpoint, api_key=SecretStr(key), more_keys=()) for key in keys]
        self._rests_until = [0.0] * len(self._endpoints)

    async def current(self) -> Endpoint:
        """The first key that does not rest, else the one that rests least."""
        numbers = range(len(self._endpoints))
        return self._endpoints[min(numbers, key=lambda number: (self._rest_s(number), number))]

    async def instead_of(
        self, refused: Endpoint, error: ModelError, replaced: int
    ) -> Endpoint | None:
        """The next key that does not rest, if the error is about the key."""
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
    """Access with a login."""

    def __init__(self, endpoint: Endpoint, credentials: Credentials) -> None:
        self._endpoint = endpoint
        self._credentials = credentials

    async def current(self) -> Endpoint:
        try:
            return self._signed(await self._credentials.current())
        except HermesError as error:
            raise _failure(error) from None

    async def instead_of(
        self, refused: Endpoint, error: ModelError, replaced: int
    ) -> Endpoint | None:
        """The renewed login, once; a second refusal has another cause."""
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
    """The access to an endpoint; `credentials` returns the login of a provider."""
    if endpoint.login:
        return AtLogin(endpoint, credentials(endpoint.login))
    return Keys(endpoint, clock)
