"""Something else in the place of a part of the product, for the time of a block."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def replaced(owner: object, name: str, instead: object) -> Generator[None]:
    """Exchange an attribute of a module or a class."""
    real = vars(owner)[name]
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, real)
