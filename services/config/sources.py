"""The sources of settings, each value with the line that set it."""

import datetime
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from services.config.fields import ConfigError, Problem
from services.config.redacted_repr import RedactedRepr
from services.home.texts import decode_text

if TYPE_CHECKING:
    from ruamel.yaml import YAML


_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}", re.ASCII)


class RawValue(RedactedRepr, frozen=True):
    """A value as its source gave it, before validation."""

    unshown = ("value",)

    key: str
    """The name under which it was set."""
    where: str
    value: object


class EnvFile(Struct, frozen=True):
    """The content of a `.env`."""

    path: Path
    values: Mapping[str, RawValue]
    notices: tuple[str, ...] = ()
    """Problems of ignored lines."""

    @property
    def texts(self) -> dict[str, str]:
        return {name: str(found.value) for name, found in self.values.items()}


_SERVICE_LINK = re.compile(r"_(SERVICE_(HOST|PORT(_.+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_.+)?)?)")


def without_service_links(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Leave out what Kubernetes tells a pod about Services, which may be named as our settings."""
    services = [
        name.removesuffix("_SERVICE_HOST")
        for name in environ
        if name.startswith("HERMES") and name.endswith("_SERVICE_HOST")
    ]

    def is_link(name: str, value: str) -> bool:
        for service in services:
            if name.startswith(service) and _SERVICE_LINK.fullmatch(name, len(service)):
                # A plain number in …_PORT is a person's setting.
                return name != f"{service}_PORT" or not value.isdigit()
        return False

    return {name: value for name, value in environ.items() if not is_link(name, value)}


def read_env_file(path: Path, environ: Mapping[str, str]) -> EnvFile:
    """Read a `.env`; `${NAME}` in it means `environ`, else an earlier line of the file."""
    text = read_text(path)
    return parse_env(text, path, environ) if text else EnvFile(path, {})


def parse_env(text: str, path: Path, environ: Mapping[str, str]) -> EnvFile:
    """Parse the text of a `.env` at `path`."""
    from dotenv.parser import parse_stream
    from dotenv.variables import parse_variables

    values: dict[str, RawValue] = {}
    notices: list[str] = []
    # The real environment wins, also in substitutions.
    known: dict[str, str | None] = {}
    for binding in parse_stream(io.StringIO(text)):
        line = binding.original.line + _leading_lines(binding.original.string)
        where = f"{path}, line {line}"
        if binding.error:
            notices.append(f"{where} is not NAME=value; the line is ignored")
        elif binding.key is not None and binding.value is not None:
            scope = {**known, **environ}
            value = "".join(atom.resolve(scope) for atom in parse_variables(binding.value))
            known[binding.key] = value
            values[binding.key] = RawValue(binding.key, where, value)
    return EnvFile(path, values, tuple(notices))


class YamlFile(RedactedRepr, frozen=True):
    """The content of a config.yaml."""

    unshown = ("data",)

    path: Path
    data: Any
    """A ruamel.yaml mapping, which knows the line of each key; a plain one if empty."""
    notices: tuple[str, ...] = ()
    """Variables that values name and nobody sets."""

    def find(self, path: str) -> RawValue | None:
        """Return the value at a dotted path; null and empty text count as unset."""
        value: Any = self.data
        parts = path.split(".")
        for part in parts:
            if not isinstance(value, Mapping) or part not in value:
                return None
            value = cast("Mapping[str, Any]", value)[part]
        if value is None or value == "":
            return None
        return RawValue(path, self.where(parts), plain(value))

    def where(self, parts: Sequence[str | int]) -> str:
        """Return the file and line of a path, as near as the file tells."""
        node: Any = self.data
        line: int | None = None
        for part in parts:
            position: Any = getattr(node, "lc", None)
            try:
                line = (position.item if isinstance(part, int) else position.key)(part)[0]
                node = node[part]
            except (AttributeError, KeyError, TypeError, IndexError):
                break  # a plain value, or merged in from an anchor
        return str(self.path) if line is None else f"{self.path}, line {line + 1}"


def read_yaml(path: Path, variables: Mapping[str, str]) -> YamlFile:
    """Read a config.yaml, or raise ConfigError with the line of the syntax error.

    `${NAME}` in a value means the variable, and `${NAME:-text}` the text without one. If nobody
    sets the variable, a value that is nothing else counts as unset; others stay as they are.
    """
    text = read_text(path)
    file = YamlFile(path, parse_yaml(text, path) if text else {})
    unset = dict[str, None]()
    for parts, value in list(_strings(file.data)) if "${" in text else ():
        _put(file.data, parts, _expanded(value, variables, unset, file.where(parts)))
    return replace(file, notices=tuple(unset))


def _strings(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, str]]:
    """Yield each text with a variable inside a node, and the keys and indexes that lead to it."""
    if isinstance(node, str) and "${" in node:
        yield path, node
    pairs: Any = ()
    if isinstance(node, Mapping):
        pairs = cast("Mapping[Any, Any]", node).items()
    elif isinstance(node, list):
        pairs = enumerate(cast("list[Any]", node))
    for key, inner in pairs:
        yield from _strings(inner, (*path, key))


def _put(node: Any, path: Sequence[Any], value: str | None) -> None:
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value


def _expanded(
    text: str, variables: Mapping[str, str], unset: dict[str, None], where: str
) -> str | None:
    def value_of(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        found = variables.get(name) or default
        if found is None:
            unset[f"{where}: {name} is not set; set it in .env or in the environment"] = None
        return match[0] if found is None else found

    expanded = _VARIABLE.sub(value_of, text)
    return None if expanded == text and _VARIABLE.fullmatch(text) else expanded


def parse_yaml(text: str, path: Path) -> Any:
    """Return the round-trip data of a config.yaml."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        data = round_trip().load(text)
    except MarkedYAMLError as error:
        mark = cast("Any", error.problem_mark)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        # The message about a duplicate key includes the values.
        problem = str(cast("Any", error).problem).partition(" with value")[0]
        raise unusable(where, f"is not valid YAML: {problem}") from None
    except YAMLError:
        raise unusable(str(path), "is not valid YAML: it has control characters") from None
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise unusable(str(path), "must have `name: value` lines at its top")
    return cast("Any", data)


def round_trip() -> "YAML":
    """Return a YAML reader and writer that keeps comments."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def plain(value: Any) -> Any:
    """Convert ruamel.yaml's value to Python's own types."""
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): plain(item) for key, item in items}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in cast("list[object]", value)]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None if value is None else str(getattr(value, "value", value))


def scalars(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield each plain value inside `value` with its path."""
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from scalars(item, (*path, str(key)))
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from scalars(item, path)
    else:
        yield path, value


def _leading_lines(text: str) -> int:
    """Count blank and comment lines, which belong to the binding after them."""
    return len(text[: len(text) - len(text.lstrip())].splitlines())


def read_text(path: Path) -> str:
    """Return the file's text, empty if there is no file; ConfigError if it is unreadable."""
    try:
        return decode_text(path.read_bytes())
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise unusable(str(path), "is not UTF-8 text; save it as UTF-8") from None
    except PermissionError:
        closed = path if os.access(path.parent, os.X_OK) else path.parent
        raise unusable(
            str(path),
            f"cannot be read; give your user access to {closed} (chmod, chown), "
            "or set HERMES_HOME to another folder",
        ) from None
    except OSError as error:
        raise unusable(str(path), f"cannot be read: {error.strerror}") from None


def unusable(subject: str, message: str) -> ConfigError:
    """Return the error for something that is wrong as a whole."""
    return ConfigError([Problem(subject, "", message)])
