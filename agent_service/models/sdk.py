"""The provider SDK without what no request needs, and what is most of its import."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_TYPES = ("openai.types", "openai.types.responses", "openai.types.shared")
"""They gather classes from 450 modules, and building those takes pydantic 0.2 s."""


@contextmanager
def types_deferred() -> Generator[None]:
    """Import the SDK inside; its types are left until somebody asks."""
    sys.meta_path.insert(0, _Finder)
    try:
        yield
    finally:
        sys.meta_path.remove(_Finder)


class _Finder:
    """Finds the packages of types where they are, with a loader that waits."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _TYPES else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Later(spec.loader)
        return spec


class _Later(Loader):
    """Runs a package when something is asked of it, and not when a module in it is."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        object.__setattr__(module, "__class__", _Deferred)

    def run(self, module: ModuleType) -> None:
        object.__setattr__(module, "__class__", ModuleType)
        self._loader.exec_module(module)


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        loader = self.__spec__ and self.__spec__.loader
        if name.startswith("__") or not isinstance(loader, _Later):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        loader.run(self)
        return getattr(self, name)
