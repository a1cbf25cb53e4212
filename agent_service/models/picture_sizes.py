"""Makes pictures smaller that are too large for models."""

from contextlib import suppress
from importlib.util import find_spec
from io import BytesIO

MAX_PICTURE_BYTES = 3_700_000
"""Anthropic takes no larger ones."""
SIDE = 2000
"""How many pixels a side of a picture that was made smaller has at most."""
MAX_PIXELS = 40_000_000
"""Larger pictures are not unpacked, but JPEG, which can be read at a smaller size."""
_BROKEN = (ArithmeticError, EOFError, LookupError, OSError, SyntaxError, TypeError, ValueError)
"""What Pillow raises for broken pictures."""
_FORMATS = ("GIF", "JPEG", "PNG", "WEBP")


def can_shrink() -> bool:
    """Return whether the package for it is installed: hermes-services[pictures]."""
    return find_spec("PIL") is not None


def fit(data: bytes) -> bytes:
    """Return a picture, as a smaller JPEG if it is too large; unchanged if that fails. Blocks."""
    if len(data) <= MAX_PICTURE_BYTES or not can_shrink():
        return data
    from PIL import Image, ImageOps

    broken = (*_BROKEN, Image.DecompressionBombError)
    with suppress(*broken), Image.open(BytesIO(data), formats=_FORMATS) as picture:
        picture.draft("RGB", (SIDE, SIDE))
        if picture.width * picture.height <= MAX_PIXELS:
            picture.thumbnail((SIDE, SIDE))
            smaller = BytesIO()
            ImageOps.exif_transpose(picture).convert("RGB").save(smaller, "JPEG", quality=85)
            return smaller.getvalue()
    return data
