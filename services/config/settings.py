"""Settings, read once: command line over environment over config.yaml over defaults.

Only this module reads the process's environment. `load_settings` reads the sources, and
`Settings.load` builds a service's models from them.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from msgspec import field
from msgspec.structs import replace
from pydantic import ValidationError

from services.config.fields import (
    ConfigError,
    ConfigModel,
    Declared,
    Env,
    Flag,
    Model,
    Problem,
    Yaml,
    declared_fields,
    holds_many,
    holds_mapping,
    holds_several_mappings,
    section,
)
from services.config.problems import Origins, explain
from services.config.redacted_repr import RedactedRepr
from services.config.sources import (
    EnvFile,
    RawValue,
    YamlFile,
    read_env_file,
    read_yaml,
    scalars,
    without_service_links,
)
from services.home.paths import DEFAULT_PROFILE, HomeError, HomePaths
from services.home.texts import decode_text
from services.redaction.redactor import Redactor

__all__ = [
    "ConfigError",
    "ConfigModel",
    "Env",
    "Flag",
    "HomePolicy",
    "Problem",
    "Settings",
    "Yaml",
    "load_settings",
    "section",
]

FILE_SUFFIX = "_FILE"
"""The suffix of variables that point to a file with a secret."""

_BACKEND_KEYS = ("executor.backend", "terminal.backend")
_BACKEND_VARIABLE = "HERMES_BACKEND"
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?keys?|key|token|secret|password|passwd|passphrase)(?:_|$)", re.IGNORECASE
)
_NO_SECRET_NAME = re.compile(r"(?:_(?:dir|path|file|env|url|name)|public_?key)$", re.IGNORECASE)
"""Names that contain a secret's name but say only where or which it is."""
_SEVERAL = re.compile(r"keys$", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"://[^\s/:@]*:([^\s/@]+)@")


class Settings(RedactedRepr, frozen=True):
    """The values of all sources, from which each service loads its models."""

    unshown = ("flags", "environ", "login_secrets", "_redactor")

    home: HomePaths
    profile: str
    flags: Mapping[str, object]
    environ: Mapping[str, str]
    env_file: EnvFile
    yaml: YamlFile
    ignored: tuple[RawValue, ...] = ()
    """Settings that ask to run on the host itself, and count as unset."""
    login_secrets: tuple[str, ...] = ()
    """Secrets in auth.json at the time of reading."""
    _redactor: Redactor = field(default_factory=Redactor)

    def not_on_host(self) -> list[str]:
        """Return warnings about `ignored` settings."""
        return [
            f"{one.key}: local ({one.where}) is not used: commands run in a sandbox, not on this "
            "machine itself"
            for one in self.ignored
        ]

    def redactor(self, on_redacted: Callable[[int], None] | None = None) -> Redactor:
        """The process's redactor; `on_redacted` counts the replacements of one service."""
        self._redactor.known.add((*self.secret_values(), *self.login_secrets))
        return self._redactor if on_redacted is None else self._redactor.counted(on_redacted)

    def load(self, model: type[Model]) -> Model:
        """Validate `model`, or raise ConfigError with all its problems."""
        values: dict[str, Any] = {}
        origins: Origins = {}
        for declared in declared_fields(model):
            found = self.find(declared)
            origins[declared.location] = (declared, found)
            inner = values
            for name in declared.location[:-1]:
                inner = inner.setdefault(name, {})
            if found is not None:
                inner[declared.location[-1]] = found.value
        try:
            return model.model_validate(values)
        except ValidationError as error:
            problems = explain(error, origins, self.yaml)
        raise ConfigError(problems)

    def find(self, declared: Declared) -> RawValue | None:
        """Return the strongest source's value of a field, in the shape of its type."""
        found = self._find_text(declared)
        if found is None:
            return self.find_yaml(declared)
        return RawValue(found.key, found.where, _from_text(declared.annotation, found.value))

    def variable(self, name: str) -> RawValue | None:
        """Return an environment variable, else the line of `.env`; empty counts as unset."""
        in_environment = RawValue(name, "environment", self.environ.get(name))
        named = (in_environment, self.env_file.values.get(name))
        return next((it for it in named if it and it.value and it not in self.ignored), None)

    def secret_file(self, name: str) -> RawValue | None:
        """Return the content of the file in `<name>_FILE`, a convention of container platforms."""
        pointer = self.variable(name + FILE_SUFFIX)
        if pointer is None:
            return None
        try:
            text = decode_text(Path(str(pointer.value)).read_bytes()).strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            message = f"{pointer.value} cannot be read: {reason}"
            raise ConfigError([Problem(pointer.key, pointer.where, message)]) from None
        return RawValue(pointer.key, str(pointer.value), text) if text else None

    def secret_values(self) -> Iterator[str]:
        for name, value in (*self.env_file.texts.items(), *self.environ.items()):
            plain_name = name.removesuffix(FILE_SUFFIX)
            if not is_secret_name(plain_name):
                yield from _URL_PASSWORD.findall(value)
            elif plain_name == name:
                yield from split_list(value) if _SEVERAL.search(name) else (value,)
            elif content := self.secret_file(plain_name):
                found = str(content.value)
                yield from split_list(found) if _SEVERAL.search(plain_name) else (found,)
        for path, value in scalars(self.yaml.data):
            if isinstance(value, str):
                if path and is_secret_name(path[-1]):
                    yield value
                yield from _URL_PASSWORD.findall(value)

    def _find_text(self, declared: Declared) -> RawValue | None:
        if declared.flag and self.flags.get(declared.flag.name) is not None:
            return RawValue(declared.flag.option, "command line", self.flags[declared.flag.name])
        variables = map(self.variable, declared.env)
        files = map(self.secret_file, declared.env if declared.secret else ())
        return next(filter(None, chain(variables, files)), None)

    def find_yaml(self, declared: Declared) -> RawValue | None:
        """Return the value in config.yaml under the first of the field's names that is there."""
        for path in declared.yaml:
            found = self.yaml.find(path)
            if found is None or found in self.ignored:
                continue
            if holds_several_mappings(declared.annotation) and isinstance(found.value, dict):
                return replace(found, value=[found.value])
            # Both `model: name` and `model: {default: name}` are in use: a mapping is a value of
            # the shorter path only if the field wants one.
            several = len(declared.yaml) > 1
            if several and isinstance(found.value, dict) and not holds_mapping(declared.annotation):
                continue
            if holds_many(declared.annotation) and isinstance(found.value, (str, int)):
                return replace(found, value=split_list(str(found.value)))
            return found
        return None


class HomePolicy(ConfigModel):
    """What the owner of a home allows beyond the defaults."""

    allow_local_backend: Annotated[bool, Yaml("security.allow_local_backend")] = False
    """Let `terminal.backend: local` run commands on this machine itself, without isolation; else it
    counts as unset."""


def load_settings(
    flags: Mapping[str, object], environ: Mapping[str, str] | None = None
) -> Settings:
    """Read all sources of settings without changing the process's environment.

    `flags` holds the command line options, None if not given; `home` and `profile` choose the home.
    """
    environ = without_service_links(dict(os.environ) if environ is None else environ)
    home, profile = _choose_home(flags, environ)
    env_file = read_env_file(home.env, environ)
    in_environment = {name: value for name, value in environ.items() if value}
    settings = Settings(
        home=home,
        profile=profile,
        flags=flags,
        environ=environ,
        env_file=env_file,
        yaml=read_yaml(home.config, {**env_file.texts, **in_environment}),
        login_secrets=tuple(_login_secrets(home.auth)),
    )
    return _off_the_host(settings)


def editing(
    flags: Mapping[str, object], environ: Mapping[str, str] | None = None
) -> tuple[HomePaths, str]:
    """Return the home, whose files may be unreadable, and the user's editor."""
    if environ is None:
        environ = dict(os.environ)
    home, _ = _choose_home(flags, environ)
    return home, environ.get("VISUAL") or environ.get("EDITOR") or ""


def _choose_home(flags: Mapping[str, object], environ: Mapping[str, str]) -> tuple[HomePaths, str]:
    user_home = Path(environ.get("HOME") or Path.home())
    named = str(flags.get("home") or environ.get("HERMES_HOME") or "~/.hermes")
    root = user_home / named[2:] if named.startswith("~/") else Path(named)
    runtime_base = Path(environ.get("XDG_RUNTIME_DIR") or "/tmp")  # noqa: S108 (made private)
    home = HomePaths(root.absolute(), runtime_base)
    profile = str(flags.get("profile") or environ.get("HERMES_PROFILE") or DEFAULT_PROFILE)
    chosen = home.profile(profile)
    if chosen is not home and not chosen.root.is_dir():
        raise HomeError(f"profile {profile}: {chosen.root} does not exist")
    return chosen, profile


def _off_the_host(settings: Settings) -> Settings:
    """Drop settings that ask to run on the host itself, unless the owner allows it."""
    named = (
        RawValue(_BACKEND_VARIABLE, "environment", settings.environ.get(_BACKEND_VARIABLE)),
        settings.env_file.values.get(_BACKEND_VARIABLE),
        *map(settings.yaml.find, _BACKEND_KEYS),
    )
    local = [one for one in named if one and str(one.value).strip().lower() == "local"]
    if not local or settings.load(HomePolicy).allow_local_backend:
        return settings
    return replace(settings, ignored=tuple(local))


def _from_text(annotation: Any, value: object) -> object:
    """Parse text as a list or mapping if the type wants one."""
    if not isinstance(value, str):
        return value
    if holds_mapping(annotation) or holds_several_mappings(annotation):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return split_list(value) if holds_many(annotation) else value


def _login_secrets(path: Path) -> Iterator[str]:
    """Yield the tokens and keys in auth.json; none if unreadable, which its users report."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    for names, value in scalars(document):
        if names and isinstance(value, str) and names[-1].endswith(("token", "key", "secret")):
            yield value


def provider_variables(provider: str) -> tuple[str, str]:
    """Return the variables of a model provider's base URL and key."""
    prefix = re.sub(r"\W", "_", provider).upper()
    return f"{prefix}_BASE_URL", f"{prefix}_API_KEY"


def is_secret_name(name: str) -> bool:
    """Return whether a value of this name is usually a secret."""
    return _SECRET_NAME.search(name) is not None and _NO_SECRET_NAME.search(name) is None


def split_list(text: str) -> list[str]:
    """Split a comma-separated text."""
    return [item.strip() for item in text.split(",") if item.strip()]
