"""Names of files as the model is shown them."""

import json


def shown_name(name: str) -> str:
    """The name itself, or a JSON string where it could pass for something else in a list.

    A line break, a terminal's escape or a turn of the writing direction would otherwise let whoever
    names a file write lines of their own.
    """
    is_plain = name.isprintable() and name == name.strip() and not name.startswith('"')
    return name if is_plain else json.dumps(name)
