"""Edits of the home's files: writes only known, valid settings and keeps comments."""

import io
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr

from services.clock import Clock
from services.config.catalog import ConfigCatalog
from services.config.fields import ConfigError, ConfigModel, Declared, origin_of, without_none
from services.config.paths import nearest, suggestion
from services.config.settings import Settings, is_secret_name, provider_variables
from services.config.sources import (
    EnvFile,
    RawValue,
    YamlFile,
    parse_env,
    parse_yaml,
    plain,
    read_text,
    round_trip,
    scalars,
)
from services.errors import InvalidArgument
from services.home.paths import DEFAULT_PROFILE, HomePaths, replace_file

_PRIVATE = 0o600
# YAML 1.1 readers, such as other programs sharing the home, take these for booleans.
_BOOLEANS = {"y": True, "yes": True, "on": True, "n": False, "no": False, "off": False}
# How the file is indented already: {key:\n    key:} and {key:\n  - item}.
_INDENTED_KEY = re.compile(r"^[^\s#-][^\n]*:[ ]*\n( +)[^\s#-]", re.MULTILINE)
_FIRST_DASH = re.compile(r"^( *)[^\s#-][^\n]*:[ ]*\n( *)- ", re.MULTILINE)
_BARE_VALUE = re.compile(r"[A-Za-z0-9_./:@%+=,~-]*")


def set_value(home: HomePaths, key: str, value: str, models: Iterable[type[ConfigModel]]) -> Path:
    """Set a path of config.yaml or a variable of `.env`; return the changed file.

    Comments and other content stay. Unknown keys and invalid values raise InvalidArgument. A secret
    that has a variable goes to `.env`.
    """
    catalog, path = ConfigCatalog(models), tuple(key.split("."))
    if declared := catalog.variables.get(key):
        return _set_variable(home, declared, key, value)
    place = catalog.root.find(path)
    if place is not None and (declared := place.setting):
        if declared.secret and declared.env:
            return _set_variable(home, declared, declared.env[0], value)
        return _set_path(home, catalog, declared, key, _typed(place.annotation, value))
    if _is_of_a_provider(home, key):
        return _write_variable(home, key, value)
    if wrong := catalog.instead_of(key):
        raise _refused(key, wrong)
    similar = catalog.nearest(path) or nearest(key, catalog.variables)
    raise _refused(key, f"is not a known key{suggestion(similar)}")


def _set_path(
    home: HomePaths, catalog: ConfigCatalog, declared: Declared, key: str, value: Any
) -> Path:
    text = read_text(home.config)
    data = parse_yaml(text, home.config)
    stronger = declared.yaml[: declared.yaml.index(key)] if key in declared.yaml else ()
    key = next(filter(YamlFile(home.config, data).find, stronger), key)
    *groups, name = key.split(".")
    node = _group(data, groups)
    section = catalog.root.find(groups)
    if not hasattr(node, "keys") and section and section.setting:
        # `model` is the model's name, or a section with `model.default`.
        *above, last = section.setting.yaml[0].split(".")
        if above == groups:
            node = _group(data, groups[:-1])[groups[-1]] = {last: node}
    elif hasattr(node, "keys") and hasattr(node.get(name), "keys") and not isinstance(value, dict):
        key = declared.yaml[0]
        *groups, name = key.split(".")
        node = _group(data, groups)
    if not hasattr(node, "keys"):
        above = ".".join(groups)
        raise _refused(key, f"{above} is a plain value in {home.config}; remove it first")
    if name == "base_url" and node.get(name) not in (None, "", value):
        node.pop("api_key", None)  # of the endpoint before
    node[name] = _quoted(value)
    _validate(declared, key, _settings(home, yaml=data))
    private = is_secret_name(name) or not home.config.exists()
    mode = _PRIVATE if private else stat.S_IMODE(home.config.stat().st_mode)
    replace_file(home.config, _dumped(data, text), mode)
    return home.config


def remove_path(home: HomePaths, path: Sequence[str]) -> Path | None:
    """Remove a path of config.yaml; return the file, or None if the path is not there."""
    text = read_text(home.config)
    data = parse_yaml(text, home.config)
    *groups, name = path
    node = _group(data, groups)
    if not hasattr(node, "keys") or name not in node:
        return None
    del node[name]
    if not node and groups:
        del _group(data, groups[:-1])[groups[-1]]
    replace_file(home.config, _dumped(data, text), stat.S_IMODE(home.config.stat().st_mode))
    return home.config


def _group(node: Any, groups: Sequence[str]) -> Any:
    """Return the group at a path, created if missing, or a plain value in its place."""
    for group in groups:
        if not hasattr(node, "keys"):
            break
        if node.get(group) is None:
            node[group] = {}
        node = node[group]
    return node


def renames(settings: Settings, catalog: ConfigCatalog) -> dict[str, str]:
    """Return the old names in config.yaml of settings in effect, with their present names."""
    found = ((settings.find_yaml(each), each.yaml[:1]) for each in catalog.declared)
    return {it.key: name for it, names in found if it for name in names if it.key != name}


def migrate(home: HomePaths, wanted: Mapping[str, str], clock: Clock) -> str:
    """Rename settings; return the name of the backup copy."""
    text = read_text(home.config)
    data = parse_yaml(text, home.config)
    for old, new in wanted.items():
        *groups, name = old.split(".")
        value = _group(data, groups).pop(name)
        *new_groups, new_name = new.split(".")
        _group(data, new_groups)[new_name] = value
        for depth in range(len(groups), 0, -1):
            if not _group(data, groups[:depth]):
                del _group(data, groups[: depth - 1])[groups[depth - 1]]
    mode = stat.S_IMODE(home.config.stat().st_mode)
    copy = home.config.with_name(f"{home.config.name}.bak.{clock.now():%Y%m%d-%H%M%S}")
    replace_file(copy, text, mode)
    replace_file(home.config, _dumped(data, text), mode)
    return copy.name


def _set_variable(home: HomePaths, declared: Declared, name: str, value: str) -> Path:
    _validate(declared, name, _settings(home, variables={name: value}))
    return _write_variable(home, name, value)


def _is_of_a_provider(home: HomePaths, name: str) -> bool:
    for path, value in scalars(parse_yaml(read_text(home.config), home.config)):
        group, last = next(iter(path), ""), "".join(path[-1:])
        if last == "key_env" and value == name:
            return True
        inside = "".join(path[1:2]) if group == "providers" else ""
        provider = str(value) if last == "provider" else inside
        if provider and name in provider_variables(provider):
            return True
    return False


def _write_variable(home: HomePaths, name: str, value: str) -> Path:
    text = _with_variable(read_text(home.env), name, value)
    written = parse_env(text, home.env, {}).values.get(name)
    if written is None or written.value != value:
        raise _refused(name, "has characters that a .env file cannot hold")
    replace_file(home.env, text, _PRIVATE)
    return home.env


def _settings(
    home: HomePaths, *, yaml: Any = None, variables: Mapping[str, str] | None = None
) -> Settings:
    where = str(home.env)
    return Settings(
        home=home,
        profile=DEFAULT_PROFILE,
        flags={},
        environ={},
        env_file=EnvFile(
            home.env, {k: RawValue(k, where, v) for k, v in (variables or {}).items()}
        ),
        yaml=YamlFile(home.config, yaml or {}),
    )


def _validate(declared: Declared, key: str, settings: Settings) -> None:
    """Raise for problems of `key` itself; other lines may be wrong or missing."""
    try:
        settings.load(declared.model)
    except ConfigError as error:
        inside = (f"{key}.", f"{key}[")
        problems = [p for p in error.problems if p.key == key or p.key.startswith(inside)]
        if problems:
            text = "\n".join(f"{problem.key}: {problem.message}" for problem in problems)
            raise InvalidArgument(text) from None


def _typed(annotation: Any, value: str) -> Any:
    """Parse the value as YAML unless the setting is a text."""
    if _takes_text(annotation):
        return value
    if origin_of(annotation) is bool and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    try:
        return plain(parse_yaml(f"value: {value}", Path("value"))["value"])
    except ConfigError:
        return value  # validation reports it


def _takes_text(annotation: Any) -> bool:
    annotation = without_none(annotation)
    if get_origin(annotation) is Literal:
        return all(isinstance(value, str) for value in get_args(annotation))
    origin = origin_of(annotation)
    return isinstance(origin, type) and issubclass(origin, (str, SecretStr, PurePath, Enum))


def _quoted(value: Any) -> Any:
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return DoubleQuotedScalarString(value)
    return value


def _dumped(data: Any, before: str) -> str:
    """Return the text of round-trip data in the layout of the original."""
    yaml = round_trip()
    if mapping := _INDENTED_KEY.search(before):
        yaml.indent(mapping=len(mapping[1]))
    if dash := _FIRST_DASH.search(before):
        offset = len(dash[2]) - len(dash[1])
        yaml.indent(sequence=offset + 2, offset=offset)
    stream = io.StringIO()
    # ruamel.yaml loses the comments of a file without data.
    stream.write(before if type(data) is dict else "")
    yaml.dump(data, stream)
    return stream.getvalue()


def _with_variable(text: str, name: str, value: str) -> str:
    """Replace the last line of a `.env` that sets `name`, or append one."""
    from dotenv.parser import parse_stream

    shown = value
    if not _BARE_VALUE.fullmatch(value):
        shown = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    bindings = list(parse_stream(io.StringIO(text)))
    lines = [binding.original.string for binding in bindings]
    same = [index for index, binding in enumerate(bindings) if binding.key == name]
    if not same:
        before = text if not text or text.endswith("\n") else f"{text}\n"
        return f"{before}{name}={shown}\n"
    old = lines[same[-1]]
    blank = old[: len(old) - len(old.lstrip())]
    export = "export " if old.lstrip().startswith("export ") else ""
    lines[same[-1]] = f"{blank}{export}{name}={shown}\n"
    return "".join(lines)


def _refused(key: str, message: str) -> InvalidArgument:
    return InvalidArgument(f"{key}: {message}")
