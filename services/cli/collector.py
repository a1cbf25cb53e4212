"""When Python collects garbage: not while it starts.

Nearly all of the 230,000 objects that a start makes stay. By Python's own numbers an eighth of the
start goes into finding that out again and again, and running services would stand still for a
tenth of a second now and then.
"""

import gc

_WHILE_STARTING = 1_000_000
_WHILE_SERVING = 10_000
"""Objects made between two collections."""


def starting() -> None:
    """Put collections off, where no services run here until the command ends."""
    gc.set_threshold(_WHILE_STARTING)


def serving() -> None:
    """Collect what work leaves behind, and leave what the start has made alone."""
    gc.freeze()
    gc.set_threshold(_WHILE_SERVING)
