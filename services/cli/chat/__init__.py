"""Talk with Hermes in the terminal, or ask once with -q."""

from services.cli.chat.command import EXAMPLES, add_arguments, run

__all__ = ["EXAMPLES", "add_arguments", "run"]
