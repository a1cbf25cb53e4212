"""Tables for people."""

from services.cli.output import print_table

__all__ = ["print_table"]
