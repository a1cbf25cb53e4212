"""The checks that `hermes doctor` asks of every service."""

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    NOTE = "note"
    """It works, with a remark."""
    OFF = "off"
    """It is not used; the message says how to use it."""
    FAILED = "failed"


class Check(Struct, frozen=True):
    """The result of one check."""

    name: str
    verdict: Verdict
    message: str
    """The finding, and what to do unless all is well: one or two sentences."""


class ModelOffer(Struct, frozen=True):
    """A local model server that could be used."""

    name: str
    base_url: str
    model: str


class OfferedModel(Struct, frozen=True):
    """A model that an endpoint lists."""

    id: str
    window: int = 0
    """Tokens of context; 0 if unknown."""
    price: tuple[int, int] | None = None
    """Micro-USD for a million tokens sent and received; None if unknown."""


class ModelChoice(Struct, frozen=True):
    """The state of the model configuration before anything is started."""

    configured: str
    """The configured model and its place, or empty."""
    offers: tuple[ModelOffer, ...]
    advice: str
    """What to set if nothing is configured: three lines."""
