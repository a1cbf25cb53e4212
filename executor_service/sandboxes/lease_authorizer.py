"""Who may use a sandbox: whoever shows its lease, and an operator; the others leave a trace."""

import hmac
import logging
from collections.abc import Callable

from msgspec import Struct

from executor_service.metrics import ExecutorMetrics
from executor_service.records.sandboxes import Claim
from executor_service.sandboxes.sandbox import Sandbox
from services.errors import LeaseInvalid, StaleEpoch

_log = logging.getLogger(__name__)


def is_same(right: str, shown: str) -> bool:
    """Whether a token is the right one; takes as long whatever the answer is."""
    return hmac.compare_digest(right.encode(), shown.encode())


class Proof(Struct, frozen=True):
    """What somebody shows who has a sandbox."""

    profile: str
    sandbox_id: str
    token: str
    epoch: int
    is_operator: bool = False
    """An operator, who needs no token: whoever has the sandbox goes on having it."""


class LeaseAuthorizer:
    """Looks at what is shown, and keeps account of it."""

    def __init__(self, token: Callable[[str, int], str], metrics: ExecutorMetrics) -> None:
        """`token` makes the one of a sandbox and an epoch."""
        self._token = token
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
        if not is_same(self._token(claim.sandbox_id, proof.epoch), proof.token):
            self.record_refusal(claim, "wrong_token")
            raise LeaseInvalid("the lease token is not valid")
        if proof.epoch != claim.epoch:
            self._metrics.stale_epochs.inc()
            self.record_refusal(claim, "stale_epoch")
            raise StaleEpoch(f"sandbox {claim.sandbox_id} has a later owner")
        sandbox.use()

    def record_refusal(self, claim: Claim, why: str) -> None:
        """Leaves a trace of somebody who asked for what is not theirs."""
        self._metrics.lease_refusals.labels(why).inc()
        about = {"audit": "lease_refused", "sandbox_id": claim.sandbox_id, "reason": why}
        _log.warning("sandbox %s was refused: %s", claim.sandbox_id, why, extra=about)
