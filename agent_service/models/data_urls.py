"""URLs that hold the data of a file, in base64."""

import base64
import re

DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)
"""Its groups are the MIME type and the data."""


def data_url(mime_type: str, data: bytes) -> str:
    """Return a file as a URL; blocks."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
