"""How a config model says where each of its fields comes from, and what can be wrong with one.

    @section("agent", variables="HERMES_")
    class LoopConfig(ConfigModel):
        max_turns: Annotated[int, Field(ge=1), Flag("max_turns")] = 90
        '''Model calls in one turn.'''

That field is `agent.max_turns` in config.yaml, `HERMES_MAX_TURNS` in the environment and
`--max-turns`. A `Yaml` or an `Env` of its own replaces the name that the model gives it. A secret
has no place in config.yaml unless it says so. A field may also hold another such model.
"""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, ClassVar, TypeGuard, TypeVar, Union, cast, get_args, get_origin

from msgspec import Struct
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
    section: ClassVar[str] = ""
    variables: ClassVar[str] = ""
    also_read: ClassVar[Sequence[str]] = ()
    """Names in config.yaml that the model reads besides those of its fields."""


Model = TypeVar("Model", bound=ConfigModel)


def section(path: str, *, variables: str = "") -> Callable[[type[Model]], type[Model]]:
    """Decorate a model: its fields' common path, and the prefix of their variables."""

    def placed(model: type[Model]) -> type[Model]:
        model.section, model.variables = path, variables
        return model

    return placed


class Yaml:
    """Dotted paths in config.yaml; the first that is set wins.

    A path that begins with one dot is below the model's section, with two dots beside it.
    """

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
        return "--" + self.name.replace("_", "-")


class TypeName(Struct, frozen=True):
    """The name of a type in the documentation, given in its Annotated."""

    text: str


class KeyNames(Struct, frozen=True):
    """The only keys of a mapping that have an effect, given in the Annotated of its key type."""

    names: tuple[str, ...]


class Problem(Struct, frozen=True):
    """One reason why the configuration cannot be used."""

    key: str
    """The setting as written: a path, a variable or an option."""
    where: str
    """File and line, or the kind of source; empty if it is set nowhere."""
    message: str

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{self.key}{place}: {self.message}"


class ConfigError(FailedPrecondition):
    """The configuration cannot be used: one line for each problem, without secrets."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class Declared(Struct, frozen=True):
    """A field of a config model with its sources."""

    model: type[ConfigModel]
    location: tuple[str, ...]
    """The field's name, after those of the models that it is nested in."""
    info: FieldInfo
    yaml: tuple[str, ...]
    env: tuple[str, ...]
    flag: Flag | None

    @property
    def key(self) -> str:
        if self.yaml:
            return self.yaml[0]
        if self.env:
            return self.env[0]
        return self.option or ".".join(self.location)

    @property
    def option(self) -> str:
        return self.flag.option if self.flag else ""

    @property
    def annotation(self) -> Any:
        return without_none(self.info.annotation)

    @property
    def default(self) -> str:
        """Empty if there is none or it depends on the machine."""
        if self.info.is_required() or self.info.default_factory is not None:
            return ""
        return value_text(self.info.default)

    @property
    def secret(self) -> bool:
        return _is_secret(self.info)


def declared_fields(model: type[ConfigModel]) -> Iterator[Declared]:
    """Yield the fields of `model` and of the models nested in it."""
    return _declared(model, ())


def _declared(model: type[ConfigModel], outer: tuple[str, ...]) -> Iterator[Declared]:
    for name, info in model.model_fields.items():
        location = (*outer, name)
        yaml = next((m.paths for m in info.metadata if isinstance(m, Yaml)), None)
        env = next((m.names for m in info.metadata if isinstance(m, Env)), None)
        flag = next((m for m in info.metadata if isinstance(m, Flag)), None)
        if yaml is env is flag is None and is_config_model(info.annotation):
            yield from _declared(info.annotation, location)
            continue
        if yaml is not None:
            yaml = tuple(_absolute(path, model.section) for path in yaml)
        else:
            has_path = model.section and not _is_secret(info)
            yaml = (f"{model.section}.{name}",) if has_path else ()
        if env is None:
            env = (f"{model.variables}{name.upper()}",) if model.variables else ()
        if not (yaml or env or flag):
            raise TypeError(f"{model.__name__}.{name} says no Yaml, Env or Flag")
        yield Declared(model, location, info, yaml, env, flag)


def _absolute(path: str, section: str) -> str:
    if path.startswith(".."):
        return f"{section.rpartition('.')[0]}.{path[2:]}"
    return f"{section}{path}" if path.startswith(".") else path


def _is_secret(info: FieldInfo) -> bool:
    return any(part is SecretStr for part in _type_parts(info.annotation))


def is_config_model(annotation: Any) -> TypeGuard[type[ConfigModel]]:
    """Return whether a field's type is another config model."""
    return isinstance(annotation, type) and issubclass(annotation, ConfigModel)


def holds_many(annotation: Any) -> bool:
    """Return whether the type has several values, comma-separated in the environment."""
    return origin_of(annotation) in (list, tuple, set, frozenset)


def holds_mapping(annotation: Any) -> bool:
    """Return whether the type is a mapping, JSON in the environment."""
    origin = origin_of(annotation)
    if origin in (dict, Mapping):
        return True
    return isinstance(origin, type) and issubclass(origin, (BaseModel, Mapping))


def holds_several_mappings(annotation: Any) -> bool:
    """Return whether the type is a list of mappings; files may have a single one instead."""
    return holds_many(annotation) and any(map(holds_mapping, get_args(without_none(annotation))))


def value_text(value: object) -> str:
    """Format a value for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(value_text, cast("list[object]", value)))
    return str(value)


def origin_of(annotation: Any) -> Any:
    """Return the class of the type's values, such as `list` for `tuple[str, ...] | None`."""
    annotation = without_none(annotation)
    if get_origin(annotation) is Annotated:
        return origin_of(get_args(annotation)[0])
    return get_origin(annotation) or annotation


def without_none(annotation: Any) -> Any:
    """Return the type without `None` if one type is left."""
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        if len(parts) == 1:
            return parts[0]
    return annotation


def _type_parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _type_parts(part)
