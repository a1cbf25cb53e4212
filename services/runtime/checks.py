"""What `hermes doctor` asks every service: whether what it needs is there, and what to do."""

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"
    """It works, and a person should know something."""
    OFF = "off"
    """It is not used; the message says how it can be."""
    FAILED = "failed"


class Check(Struct, frozen=True):
    """The result of one check."""

    name: str
    verdict: Verdict
    message: str
    """What was found, and unless all is well what to do: one sentence or two."""


class ModelOffer(Struct, frozen=True):
    """A local model server that could be used."""

    name: str
    base_url: str
    model: str


class ModelChoice(Struct, frozen=True):
    """What is known of the model before anything is started."""

    configured: str
    """The configured model and where it is; empty when there is none."""
    offers: tuple[ModelOffer, ...]
    advice: str
    """What to set when nothing is configured: three lines."""
