"""What `hermes doctor` asks every service: whether what it needs is there, and what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"
    """It works, and a person should know something."""
    OFF = "off"
    """It is not used; the message says how it can be."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    verdict: Verdict
    message: str
    """What was found, and unless all is well what to do: one sentence or two."""


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A local model server that could be used."""

    name: str
    base_url: str
    model: str


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What is known of the model before anything is started."""

    configured: str
    """The configured model and where it is; empty when there is none."""
    offers: tuple[ModelOffer, ...]
    advice: str
    """What to set when nothing is configured: three lines."""
