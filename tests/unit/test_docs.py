"""What the documentation says is so: links, commands, settings, names and code."""

import argparse
import ast
import importlib
import re
import runpy
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import pytest
from ruamel.yaml import YAML

from services.cli.main import COMMANDS, parser_of
from services.config.catalog import ACCEPTED_VARIABLES, TEST_VARIABLES, ConfigCatalog
from tests.architecture.source import product
from tests.integration.gateway_replicas import CONFIG
from tests.observability.declared import SUFFIX, declared
from tests.support.markdown import ROOT, Block, Page, page, pages
from tests.unit.docs_reference import GENERATED, actions_of, with_parts
from tests.unit.services.test_config_docs import all_models

ABOUT_OUR_SETTINGS = re.compile(
    r"\b(?:HERMES|TELEGRAM|GATEWAY|OPENROUTER|OPENAI|DOCKER)_[A-Z]+(?:_[A-Z]+)*\b"
)
SETTING = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)(?:: .*)?")
FILE_ENDINGS = ("json", "db", "py", "yaml", "crt", "key", "md")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
METRIC = re.compile(r"(?:hermes|grpc)_[a-z]+(?:_[a-z]+)+")
TARGET = re.compile(r"\bmake ([a-z-]+)\b")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ASSIGNMENT = re.compile(r"[A-Z_]+=.*")
EXCERPT = "from "

Check = Callable[[Page], Iterable[str]]


CATALOG = ConfigCatalog(all_models())
KEYS = frozenset(key for entry in CATALOG.declared for key in entry.yaml)


def found_by(check: Check) -> list[str]:
    return [f"{each.name}: {problem}" for each in pages() for problem in check(each)]


def sample(text: str) -> Page:
    """A page of the test's own, as if it stood beside the README."""
    return Page(ROOT / "SAMPLE.md", text)


# ---- links


def broken_links(document: Page) -> Iterator[str]:
    for link in document.links:
        if link.startswith(("https://", "http://")):
            continue
        target, _, anchor = link.partition("#")
        path = (document.path.parent / target).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            yield f"{link} leads nowhere"
        elif anchor and anchor not in (page(path) if target else document).anchors:
            yield f"{link}: there is no such heading"


def test_every_link_leads_somewhere() -> None:
    assert found_by(broken_links) == []
    assert list(broken_links(sample("# A\n[a](README.md#nothing)")))


def test_the_page_that_setup_names_for_a_platform_is_there() -> None:
    for each in CONFIG.platforms:
        assert list(broken_links(sample(f"[a]({each.page})"))) == [], each.name


def test_every_page_can_be_found() -> None:
    documents = pages()
    linked = {
        (each.path.parent / link.partition("#")[0]).resolve()
        for each in documents
        for link in each.links
    }
    lost = [each.name for each in documents if each.name != "README.md" and each.path not in linked]
    assert lost == []


# ---- commands


def words(line: str) -> list[list[str]]:
    """The simple commands of a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("();<>|&"):
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def hermes_lines(block: Block) -> Iterator[list[str]]:
    """The arguments of each call of `hermes` in a block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        for command in words(line.removeprefix("$ ")):
            while command and ASSIGNMENT.fullmatch(command[0]):
                del command[0]
            if command and command[0].rpartition("/")[2] == "hermes":
                yield command[1:]


def refused(arguments: list[str]) -> str | None:
    """What argparse has against the arguments, in short."""
    if arguments in ([], ["--version"], ["--help"]):
        return None
    if arguments[0] not in COMMANDS:
        return f"there is no command {arguments[0]}"
    try:
        parser_of(arguments[0]).parse_args(arguments[1:])
    except SystemExit as ended:
        return f"hermes {shlex.join(arguments)} is not accepted" if ended.code else None
    return None


def wrong_lines(document: Page) -> Iterator[str]:
    for block in document.blocks("sh", "console"):
        yield from filter(None, map(refused, hermes_lines(block)))


def wrong_mentions(document: Page) -> Iterator[str]:
    """Commands named in the text need no arguments, but what they name must be there."""
    for code in document.inline_code:
        if code.startswith("hermes "):
            yield from unknown_words(shlex.split(code)[1:])


def unknown_words(arguments: list[str]) -> Iterator[str]:
    if not arguments or arguments[0].startswith("-"):
        if problem := refused(arguments):
            yield problem
        return
    name, *rest = arguments
    if name not in COMMANDS:
        yield f"there is no command {name}"
        return
    options, actions = known_words(name)
    if rest and not rest[0].startswith("-") and actions and rest[0] not in actions:
        yield f"hermes {name} has no {rest[0]}"
    for word in rest:
        if word.startswith("-") and word not in options:
            yield f"hermes {name} has no {word}"


def known_words(name: str) -> tuple[set[str], set[str]]:
    """The options of a command and of its actions, and the actions."""
    options: set[str] = set()
    actions: set[str] = set()
    parsers: list[argparse.ArgumentParser] = [parser_of(name)]
    for parser in parsers:
        for action in actions_of(parser):
            options.update(action.option_strings)
            if isinstance(action.choices, Mapping):
                inner = cast("Mapping[str, Any]", action.choices)
                actions.update(inner)
                parsers.extend(inner.values())
    return options, actions


def test_every_command_line_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert found_by(wrong_lines) == []
    assert list(wrong_lines(sample("```sh\na && hermes up b\n```")))
    assert capsys.readouterr().err


def test_every_command_that_is_named_exists() -> None:
    assert found_by(wrong_mentions) == []
    assert list(wrong_mentions(sample("see `hermes jobs fly`")))


def test_every_example_of_the_help_is_accepted() -> None:
    for name in COMMANDS:
        examples = parser_of(name).epilog or ""
        lines = [re.split(r" {3,}", line.strip())[0] for line in examples.splitlines()[1:]]
        text = "\n".join(line for line in lines if "hermes " in line and " or " not in line)
        shown = [*hermes_lines(Block(name, "sh", text, ""))]
        assert shown, name
        assert [problem for problem in map(refused, shown) if problem] == [], name


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = {
        (each.name, target)
        for each in pages()
        for code in (*each.inline_code, *(block.text for block in each.blocks("sh", "console")))
        for target in TARGET.findall(code)
    }
    assert {named for named in shown if named[1] not in targets} == set()
    assert ("README.md", "up") in shown


# ---- settings


def unknown_settings(document: Page) -> Iterator[str]:
    groups = {key.partition(".")[0] for key in KEYS}
    for code in document.inline_code:
        found = SETTING.fullmatch(code)
        if found is None or found[1].rpartition(".")[2] in FILE_ENDINGS:
            continue
        key = found[1]
        if key.partition(".")[0] in groups and CATALOG.root.find(key.split(".")) is None:
            yield f"there is no setting {key}"


def unknown_variables(document: Page) -> Iterator[str]:
    known = CATALOG.variables.keys() | ACCEPTED_VARIABLES | TEST_VARIABLES
    for name in sorted(set(ABOUT_OUR_SETTINGS.findall(document.text)) - known):
        yield f"there is no variable {name}"


def unknown_yaml(document: Page) -> Iterator[str]:
    for block in document.blocks("yaml"):
        if block.text.startswith("#") and "config.yaml" in block.text.splitlines()[0]:
            for path in CATALOG.root.unknown(YAML(typ="safe").load(block.text)):
                yield f"there is no setting {'.'.join(path)}"


def test_every_setting_exists() -> None:
    assert found_by(unknown_settings) == []
    assert found_by(unknown_variables) == []
    assert found_by(unknown_yaml) == []
    wrong = "`agent.turns` and `HERMES_MODELS`\n```yaml\n# config.yaml\nagent: {turns: 1}\n```\n"
    for check in (unknown_settings, unknown_variables, unknown_yaml):
        assert list(check(sample(wrong)))


# ---- names in the code


def missing_paths(document: Page) -> Iterator[str]:
    top = {path.name for path in ROOT.iterdir()}
    for code in document.inline_code:
        is_path = "/" in code and PATH.fullmatch(code) and code.partition("/")[0] in top
        if is_path and not (ROOT / code).exists():
            yield f"there is no {code}"


def test_every_path_exists() -> None:
    assert found_by(missing_paths) == []
    assert list(missing_paths(sample("`docs/none.md`, `tests/`, `executor_service/backends/`")))


def missing_tests(document: Page) -> Iterator[str]:
    for file, function in TEST.findall(document.text):
        path = ROOT / file
        if not path.exists() or f"def {function}(" not in path.read_text(encoding="utf-8"):
            yield f"there is no {file}::{function}"


def test_every_test_exists() -> None:
    assert found_by(missing_tests) == []
    assert list(missing_tests(sample("`tests/unit/test_docs.py::test_nothing`")))


def test_every_metric_exists() -> None:
    known = {one.name for metrics in declared().values() for one in metrics}
    named = {code for each in pages() for code in each.inline_code if METRIC.fullmatch(code)}
    assert named
    known |= {"hermes_build_info", "hermes_swe_env"}  # the latter is an environment
    assert {name for name in named if SUFFIX.sub("", name) not in known} == set()


# ---- code


def broken_code(document: Page) -> Iterator[str]:
    for block in document.blocks("python"):
        try:
            tree = ast.parse(block.text)
        except SyntaxError as error:
            yield f"{block.where}: {error}"
            continue
        yield from (f"{block.where}: {problem}" for problem in missing_imports(tree))
        yield from (f"{block.where}: {problem}" for problem in changed_excerpts(block))


def missing_imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            for name in node.names:
                if not hasattr(module, name.name):
                    yield f"{node.module} has no {name.name}"


def changed_excerpts(block: Block) -> Iterator[str]:
    """An excerpt stands in its file; `...` on a line of its own is where something is left out."""
    if not block.note.startswith(EXCERPT):
        return
    name = block.note.removeprefix(EXCERPT)
    text = (ROOT / name).read_text(encoding="utf-8")
    for piece in re.split(r"\n *\.\.\.\n", block.text):
        if piece.strip() not in text:
            yield f"{piece.strip().splitlines()[0]} … does not stand in {name} like this"


def test_every_example_in_python_is_right() -> None:
    assert found_by(broken_code) == []
    excerpt = "<!-- from tests/samples/tool.py -->\n```python\nprint('no excerpt')\n```\n"
    assert list(broken_code(sample(excerpt)))


def test_the_guide_shows_every_sample() -> None:
    guide = page(ROOT / "docs/developers/extending.md")
    shown = {block.note for block in guide.blocks("python")}
    assert shown == {f"from tests/samples/{name}.py" for name in ("tool", "backend", "platform")}


@pytest.mark.parametrize("path", GENERATED)
def test_what_is_made_from_the_code_is_what_the_code_says(path: str) -> None:
    document = (ROOT / path).read_text(encoding="utf-8")
    assert document == with_parts(path, document), "run python -m tests.unit.docs_reference"


def test_the_places_of_the_architecture_are_there() -> None:
    text = page(ROOT / "docs/developers/architecture.md").text
    places = re.findall(r"^\| [^|]+ \| `([\w/]+\.py)` \| `(\w+)` \|$", text, re.MULTILINE)
    assert len(places) >= 10
    for file, name in places:
        code = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:(?:async )?def|class) {name}\b|^{name} = ", code, re.MULTILINE), (
            name
        )


def test_the_errors_of_the_troubleshooting_page_are_real() -> None:
    text = page(ROOT / "docs/troubleshooting.md").text
    quoted = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    assert len(quoted) > 20
    code = "\n".join(module.text for module in product())
    said = re.sub(r'"\s*\n\s*f?"', "", code)
    assert [error for error in quoted if error not in said] == []


def test_the_pictures_are_what_their_script_draws() -> None:
    folder = ROOT / "docs/pictures"
    drawn: dict[str, str] = runpy.run_path(str(folder / "generate"))["pictures"]()
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")} == drawn
    shown = {link.rpartition("/")[2] for each in pages() for link in each.links}
    assert drawn.keys() <= shown
