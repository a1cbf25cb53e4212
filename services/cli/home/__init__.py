"""Move a home: take every file of one, or write them all into a folder, byte for byte."""

from services.cli.home.command import COMMAND

__all__ = ["COMMAND"]
