"""The reference in docs/configuration.md is what the models say.

`python -m tests.unit.services.test_config_docs` writes it anew.
"""

from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path

from services.cli.main import COMMANDS, parser_of
from services.config.catalog import ConfigCatalog
from services.config.fields import Declared
from services.config.settings import ConfigModel
from services.runtime import config
from tests.unit.docs_reference import actions_of

ROOT = Path(__file__).parents[3]
SERVICES = ("agent", "executor", "gateway", "scheduler")
DOCUMENT = ROOT / "docs" / "configuration.md"
BEGIN = "<!-- The tables below are made from the models. -->"
END = "<!-- End of the tables. -->"
HEAD = "| Setting | Environment, option | Value | Default | Meaning |\n|---|---|---|---|---|"


def all_models() -> list[type[ConfigModel]]:
    models = list(config.MODELS)
    for service in SERVICES:
        models.extend(import_module(f"{service}_service.config").MODELS)
    return models


def tables(models: list[type[ConfigModel]]) -> str:
    """The settings of each group of config.yaml as a table."""
    entries = sorted(ConfigCatalog(models).declared, key=group)
    return "\n\n".join(
        "\n".join([f"### {name}", "", HEAD, *dict.fromkeys(map(row, members))])
        for name, members in groupby(entries, key=group)
    )


def group(entry: Declared) -> str:
    return f"`{entry.yaml[0].split('.')[0]}`" if entry.yaml else "Environment only"


def row(entry: Declared) -> str:
    ways = [*entry.env, entry.option] if entry.option in options() else entry.env
    cells = (code(*entry.yaml), code(*ways), entry.type.replace("|", "\\|"), code(entry.default))
    return f"| {' | '.join(cells)} | {entry.meaning} |"


@cache
def options() -> frozenset[str]:
    """The options that commands have; some settings are passed on by commands without one."""
    parsers = map(parser_of, COMMANDS)
    actions = (action for parser in parsers for action in actions_of(parser))
    return frozenset(option for action in actions for option in action.option_strings)


def code(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names if name)


def with_tables(document: str) -> str:
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(all_models())}\n\n{END}{after}"


def test_the_reference_is_what_the_models_say() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == with_tables(document), f"run python -m {__name__}"


def test_every_setting_is_explained() -> None:
    silent = [entry.key for entry in ConfigCatalog(all_models()).declared if not entry.meaning]
    assert not silent


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
