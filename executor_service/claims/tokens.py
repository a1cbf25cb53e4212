"""Tokens of leases: what a caller shows to prove that it holds a sandbox."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping

_REMEMBERED_EPOCHS = 16


class TokenMint:
    """Makes the token of each epoch, and keeps none of them."""

    def __init__(self) -> None:
        # A caller that asks again gets the token that it was given, which is not stored anywhere.
        self._key = secrets.token_bytes(32)

    def token(self, sandbox_id: str, epoch: int) -> str:
        """The token of one epoch of a sandbox, 64 hex digits: the same for as long as we live."""
        return hmac.digest(self._key, f"{sandbox_id} {epoch}".encode(), "sha256").hex()


def digest(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def with_epoch(digests: Mapping[int, str], epoch: int, token: str) -> dict[int, str]:
    """The digests with that of a new epoch, without those of long ago."""
    oldest = epoch - _REMEMBERED_EPOCHS
    kept = {number: known for number, known in digests.items() if number > oldest}
    return {**kept, epoch: digest(token)}


def is_token_of(digests: Mapping[int, str], epoch: int, token: str) -> bool:
    """Whether a token is the one of an epoch; takes as long whatever the answer is."""
    return hmac.compare_digest(digests.get(epoch, "-" * 64), digest(token))
