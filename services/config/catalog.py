"""All settings, and checks of a configuration as a whole."""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from services.config.fields import (
    ConfigError,
    ConfigModel,
    Declared,
    Problem,
    declared_fields,
    value_text,
)
from services.config.paths import YamlPath, nearest, places, suggestion
from services.config.settings import FILE_SUFFIX, Settings

OWN_GROUPS = frozenset({"services", "executor", "gateway", "scheduler"})
"""Groups of config.yaml that are ours alone, so that an unknown key in them is an error."""

SILENT_PATHS = frozenset({("_config_version",)})
"""Unknown keys without a warning: another program's own."""

MEMORY_PROVIDERS = ("builtin", "none", "honcho")
"""Known values of `memory.provider`; the first two mean the home's own files only."""

ACCEPTED_VARIABLES = frozenset({"HERMES_HOME", "HERMES_PROFILE"})
TEST_VARIABLES = frozenset(
    f"HERMES_{name}" for name in ("REQUIRE", "SCALE", "CORPORA", "FUZZ_INPUTS", "FUZZ_SEED")
)

_OUR_VARIABLE = re.compile(r"HERMES_[A-Z0-9_]+")


class Shown(Struct, frozen=True):
    """A setting in effect."""

    key: str
    value: str
    """Never a secret."""
    where: str
    """What set it, or `default`."""


class ConfigCatalog:
    """The settings of some models, listed and looked up by name."""

    def __init__(self, models: Iterable[type[ConfigModel]]) -> None:
        self.models = tuple(models)
        self.declared = tuple(d for model in self.models for d in declared_fields(model))
        self.root = places(self.declared)
        self.variables: dict[str, Declared] = {
            name: declared
            for declared in reversed(self.declared)
            for variable in declared.env
            for name in (variable, variable + FILE_SUFFIX)[: 1 + declared.secret]
        }

    def nearest(self, path: YamlPath) -> str | None:
        """Return what is most like the first unknown name of a path, or where its last one may be.

        Of several places, it is the one that is most like the path: a Slack setting for Slack.
        """
        for depth, name in enumerate(path):
            section = self.root.find(path[:depth])
            if section is not None and self.root.find(path[: depth + 1]) is None:
                if beside := nearest(name, section.inside):
                    return ".".join((*path[:depth], beside))
                break
        known = {".".join(one): one[-1] for one in self.root.paths()}
        like = nearest(path[-1], known.values(), likeness=0.8)
        elsewhere = (key for key, last in known.items() if last == like)
        return nearest(".".join(path), elsewhere, likeness=0.0)

    def instead_of(self, section: str) -> str:
        """Return the problem with a plain value in place of a section, or empty."""
        place = self.root.find(section.split("."))
        if place is None or not place.inside:
            return ""
        keys = " or ".join(f"{section}.{name}" for name in sorted(place.inside))
        return f"is a section and takes no value itself; set {keys}"

    def show(self, settings: Settings) -> list[Shown]:
        # Two services may read the same setting, which is one to people.
        shown = {(declared.yaml, declared.env): declared for declared in self.declared}
        return [_show_setting(declared, settings) for declared in shown.values()]


def _show_setting(setting: Declared, settings: Settings) -> Shown:
    found = settings.find(setting)
    if found is None:
        return Shown(setting.key, setting.default, "default")
    value = "(set, not shown)" if setting.secret else value_text(found.value)
    return Shown(setting.key, value, f"{found.key}, {found.where}")


# ---- checks


def check_settings(settings: Settings, catalog: ConfigCatalog) -> list[str]:
    """Validate all settings; return warnings, or raise ConfigError with all problems at once."""
    problems: list[Problem] = []
    for model in catalog.models:
        try:
            settings.load(model)
        except ConfigError as error:
            problems.extend(error.problems)
    in_environment = {name: "environment" for name, value in settings.environ.items() if value}
    problems.extend(_unknown_variables(in_environment, catalog))
    notices = [*settings.env_file.notices, *settings.yaml.notices, *_without_effect(settings)]
    # Another version may use unknown names of `.env`.
    in_file = {name: found.where for name, found in settings.env_file.values.items()}
    notices.extend(map(str, _unknown_variables(in_file, catalog)))
    for path in catalog.root.unknown(settings.yaml.data):
        found = settings.yaml.find(".".join(path))
        if found and (wrong := catalog.instead_of(found.key)):
            # A warning is not enough: the intended safeguard would not be in effect.
            problems.append(Problem(found.key, found.where, wrong))
        elif path[0] in OWN_GROUPS:
            problems.append(_unknown_key(settings, catalog, path, ""))
        elif path not in SILENT_PATHS:
            ignored = _unknown_key(settings, catalog, path, " and has no effect")
            notices.append(str(ignored))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return notices


def _without_effect(settings: Settings) -> Iterator[str]:
    """Yield warnings about settings that have no effect here."""
    found = settings.yaml.find("memory.provider")
    if found is not None and found.value not in (None, "", *MEMORY_PROVIDERS):
        yield (
            f"memory.provider ({found.where}) has no effect: {found.value} is not available; "
            "Hermes remembers in its own files, as it does without it"
        )
    if (found := settings.yaml.find("auxiliary.review.model")) is not None and found.value:
        yield (
            f"auxiliary.review ({found.where}) has no effect: a conversation is looked back at by "
            "its own model, which has it in its cache"
        )


def _unknown_key(
    settings: Settings, catalog: ConfigCatalog, path: YamlPath, consequence: str
) -> Problem:
    similar = suggestion(catalog.nearest(path))
    where = settings.yaml.where(path)
    return Problem(".".join(path), where, f"is not a known key{consequence}{similar}")


def _unknown_variables(found: Mapping[str, str], catalog: ConfigCatalog) -> Iterator[Problem]:
    """Yield a problem for each name of ours that is unknown, from names and where they stand."""
    known = catalog.variables.keys() | ACCEPTED_VARIABLES | TEST_VARIABLES
    ours = [name for name in known if name.startswith("HERMES_")]
    for name in sorted(found):
        if _OUR_VARIABLE.fullmatch(name) and name not in known:
            message = f"is not a known variable{suggestion(nearest(name, ours))}"
            yield Problem(name, found[name], message)
