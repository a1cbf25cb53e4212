"""How a config model says where each of its fields comes from, and what can be wrong with one.

    class LoopConfig(ConfigModel):
        max_turns: Annotated[int, Field(ge=1), Yaml("agent.max_turns"), Flag("max_turns")] = 90
        '''Model calls in one turn.'''

A field without a source of its own holds another such model.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, SecretStr
from pydantic.fields import FieldInfo

from services.errors import FailedPrecondition


class ConfigModel(BaseModel):
    """Settings of one concern: frozen, each field documented with its unit."""

    model_config = ConfigDict(
        allow_inf_nan=False,
        # Chat ids and the like are often written as bare numbers.
        coerce_numbers_to_str=True,
        extra="forbid",
        frozen=True,
    )


class Yaml:
    """Dotted paths in config.yaml; the first that is set wins."""

    __slots__ = ("paths",)

    def __init__(self, *paths: str) -> None:
        self.paths = paths


class Env:
    """Names of environment variables; the first that is set wins."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        self.names = names


class Flag(Struct, frozen=True):
    """A command line option, named as argparse stores it: `log_level` is `--log-level`."""

    name: str

    @property
    def option(self) -> str:
        """The option as a person types it."""
        return "--" + self.name.replace("_", "-")


class TypeName(Struct, frozen=True):
    """What the documentation calls a type; stands in its Annotated."""

    text: str


class Problem(Struct, frozen=True):
    """One reason why the configuration cannot be used."""

    key: str
    """The setting as the person wrote it: a path, a variable or an option."""
    where: str
    """File and line, or the kind of source; empty when it is set nowhere."""
    message: str

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{self.key}{place}: {self.message}"


class ConfigError(FailedPrecondition):
    """The configuration cannot be used: one line for each problem, none with a secret in it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


NoticeKind = Literal[
    "unknown_key", "unknown_variable", "unreadable_line", "local_backend", "no_effect"
]


class Notice(Struct, frozen=True):
    """Something about the configuration that a person should hear of, though it works."""

    kind: NoticeKind
    message: str

    def used_instead(self, sandbox: str) -> "Notice":
        """The notice, saying also which sandbox takes the place of what was configured."""
        return replace(self, message=f"{self.message}; {sandbox} is used instead")


class Declared(Struct, frozen=True):
    """A field of a config model together with its sources."""

    model: type[ConfigModel]
    location: tuple[str, ...]
    """The field's name, after those of the models that it is nested in."""
    info: FieldInfo
    yaml: tuple[str, ...]
    env: tuple[str, ...]
    flag: Flag | None

    @property
    def key(self) -> str:
        """The name under which it is documented."""
        if self.yaml:
            return self.yaml[0]
        if self.env:
            return self.env[0]
        return self.flag.option if self.flag else ".".join(self.location)

    @property
    def annotation(self) -> Any:
        """The declared type without `None`."""
        return without_none(self.info.annotation)

    @property
    def secret(self) -> bool:
        """Whether its value must never be shown."""
        return any(part is SecretStr for part in _type_parts(self.info.annotation))


def declared_fields(model: type[ConfigModel]) -> Iterator[Declared]:
    """The fields of `model` and of the models nested in it."""
    return _declared(model, ())


def _declared(model: type[ConfigModel], outer: tuple[str, ...]) -> Iterator[Declared]:
    for name, info in model.model_fields.items():
        location = (*outer, name)
        yaml = tuple(p for m in info.metadata if isinstance(m, Yaml) for p in m.paths)
        env = tuple(n for m in info.metadata if isinstance(m, Env) for n in m.names)
        flag = next((m for m in info.metadata if isinstance(m, Flag)), None)
        if yaml or env or flag:
            yield Declared(model, location, info, yaml, env, flag)
        elif is_config_model(info.annotation):
            yield from _declared(info.annotation, location)
        else:
            raise TypeError(f"{model.__name__}.{name} says no Yaml, Env or Flag")


def is_config_model(annotation: Any) -> TypeGuard[type[ConfigModel]]:
    """Whether a field's type is another config model."""
    return isinstance(annotation, type) and issubclass(annotation, ConfigModel)


def holds_many(annotation: Any) -> bool:
    """Whether the type takes several values, comma-separated in the environment."""
    return origin_of(annotation) in (list, tuple, set, frozenset)


def holds_mapping(annotation: Any) -> bool:
    """Whether the type takes names with values, JSON in the environment."""
    origin = origin_of(annotation)
    if origin in (dict, Mapping):
        return True
    return isinstance(origin, type) and issubclass(origin, (BaseModel, Mapping))


def holds_several_mappings(annotation: Any) -> bool:
    """Whether the type takes several of those, of which files may have a single one as it is."""
    return holds_many(annotation) and any(map(holds_mapping, get_args(without_none(annotation))))


def type_text(annotation: Any) -> str:
    """The type in the words of the documentation."""
    annotation = without_none(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        named = next((m.text for m in metadata if isinstance(m, TypeName)), None)
        return named or type_text(inner)
    if origin is Literal:
        return " | ".join(str(value) for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(type_text(part) for part in get_args(annotation))
    if holds_many(annotation):
        items = [arg for arg in get_args(annotation) if arg is not Ellipsis]
        return f"list of {type_text(items[0])}" if items else "list"
    if holds_mapping(annotation):
        return "mapping"
    names = {str: "text", int: "integer", float: "number", bool: "true or false"}
    return names.get(annotation) or _type_name(annotation)


def _type_name(annotation: Any) -> str:
    if annotation is SecretStr:
        return "secret"
    return str(getattr(annotation, "__name__", annotation)).lower()


def origin_of(annotation: Any) -> Any:
    """The class that values of the type have, such as `list` for `tuple[str, ...] | None`."""
    annotation = without_none(annotation)
    if get_origin(annotation) is Annotated:
        return origin_of(get_args(annotation)[0])
    return get_origin(annotation) or annotation


def without_none(annotation: Any) -> Any:
    """The type without `None`, where that leaves one type."""
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        if len(parts) == 1:
            return parts[0]
    return annotation


def _type_parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _type_parts(part)
