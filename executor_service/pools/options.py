"""What the boxes of a pool are, how many, and how many there are."""

from msgspec import Struct, field

from executor_service.backends.base import Limits
from executor_service.config import DEFAULT_TEMPLATE


class PoolOptions(Struct, frozen=True):
    """What the boxes of a pool are, and how many."""

    owner: str
    backend: str
    template: str = DEFAULT_TEMPLATE
    limits: Limits = field(default_factory=Limits)
    image: str = ""
    warm: int = 1
    """Boxes that are kept ready."""
    most: int = 32
    """Boxes in all."""
    prefill: bool = True
    """Whether boxes are made ready before the first one is asked for."""
    orphan_timeout_s: float = 1800.0
    """How long a box lives without an executor."""


class PoolStats(Struct, frozen=True):
    """A pool as it is now, in boxes and callers."""

    ready: int
    claimed: int
    making: int
    waiting: int
    """Callers for whom there is no place."""
    hits: int
    """Callers since the start for whom a box was ready."""
    misses: int
    """Callers since the start for whom one had to be made."""
    warm: int
    most: int
    draining: bool
