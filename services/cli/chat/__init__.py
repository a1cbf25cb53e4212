"""Talk with Hermes in the terminal, or ask once with -q."""

from services.cli.chat.command import COMMAND

__all__ = ["COMMAND"]
