"""Who may use a sandbox: whoever shows its lease, and an operator; the others leave a trace."""

import hashlib
import hmac
import logging
import secrets
from collections.abc import Mapping

from msgspec import Struct

from executor_service.claims.sandbox import Sandbox
from executor_service.metrics import ExecutorMetrics
from executor_service.records import Claim
from services.errors import LeaseInvalid, StaleEpoch

_REMEMBERED_EPOCHS = 16
_log = logging.getLogger(__name__)


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


class Proof(Struct, frozen=True):
    """What somebody shows who has a sandbox."""

    profile: str
    sandbox_id: str
    token: str
    epoch: int
    is_operator: bool = False
    """An operator, who needs no token: whoever has the sandbox goes on having it."""


class Proofs:
    """Looks at what is shown, and keeps account of it."""

    def __init__(self, metrics: ExecutorMetrics) -> None:
        self._metrics = metrics

    def check(self, sandbox: Sandbox, proof: Proof) -> None:
        """Lets somebody use a sandbox, which prolongs its life unless it is an operator.

        Fails with LeaseInvalid or StaleEpoch, in that order.
        """
        claim = sandbox.claim
        if proof.is_operator:
            self._metrics.operator_uses.inc()
            about = {"audit": "operator_use", "sandbox_id": claim.sandbox_id}
            _log.info(
                "an operator uses sandbox %s of %s", claim.sandbox_id, claim.profile, extra=about
            )
            return
        if not is_token_of(claim.token_digests, proof.epoch, proof.token):
            self.refused(claim, "wrong_token")
            raise LeaseInvalid("the lease token is not valid")
        if proof.epoch != claim.epoch:
            self._metrics.stale_epochs.inc()
            self.refused(claim, "stale_epoch")
            raise StaleEpoch(f"sandbox {claim.sandbox_id} has a later owner")
        sandbox.use()

    def refused(self, claim: Claim, why: str) -> None:
        """Leaves a trace of somebody who asked for what is not theirs."""
        self._metrics.lease_refusals.labels(why).inc()
        about = {"audit": "lease_refused", "sandbox_id": claim.sandbox_id, "reason": why}
        _log.warning("sandbox %s was refused: %s", claim.sandbox_id, why, extra=about)
