"""Show, set and check the configuration."""

import argparse

from services.cli.arguments import Actions
from services.cli.console import print_json, say
from services.cli.startup import catalog
from services.cli.tables import print_table
from services.config import load_settings
from services.config_catalog import ConfigCatalog, Shown
from services.config_check import check_settings
from services.config_edit import set_value

EXAMPLES = """\
examples:
  hermes config show                 what is set, and where
  hermes config show --all           the defaults too
  hermes config set agent.max_turns 40
  hermes config set OPENROUTER_API_KEY sk-or-…
  hermes config check                exit status 1 when something is wrong"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes config`."""
    actions = Actions(parser, "show|set|check")
    show = actions.add("show", "the settings in effect and what set them")
    show.add_argument("--all", action="store_true", help="also what has its default")
    show.add_argument("--json", action="store_true", help="one JSON list")
    change = actions.add("set", "change config.yaml, or .env for NAME_IN_CAPITALS")
    change.add_argument("key", help="a path such as agent.max_turns, or a variable")
    change.add_argument("value", help="the new value")
    actions.add("check", "look for mistakes")


def run(arguments: argparse.Namespace) -> int:
    """Shows, sets or checks."""
    known = catalog()
    match arguments.action:
        case "set":
            settings = load_settings(vars(arguments))
            path = set_value(settings.home, arguments.key, arguments.value, known.models)
            say(f"{arguments.key} is set in {path}")
            return 0
        case "show":
            return _show(arguments, known)
        case _:
            return _check(arguments, known)


def _show(arguments: argparse.Namespace, known: ConfigCatalog) -> int:
    settings = load_settings(vars(arguments))
    rows = [row for row in known.show(settings) if arguments.all or row.where != "default"]
    if arguments.json:
        print_json([_described(row) for row in rows])
    elif rows:
        print_table(
            ("setting", "value", "set by"), [(row.entry.key, row.value, row.where) for row in rows]
        )
    else:
        say("Nothing is set; everything has its default. See them with: hermes config show --all")
    return 0


def _check(arguments: argparse.Namespace, known: ConfigCatalog) -> int:
    settings = load_settings(vars(arguments))
    notices = check_settings(settings, known)
    for notice in notices:
        say(notice.message)
    if not notices:
        say(f"{settings.home.config} and {settings.home.env} are fine.")
    return 1 if notices else 0


def _described(row: Shown) -> dict[str, str]:
    return {"key": row.entry.key, "value": row.value, "set_by": row.where}
