"""A version runs beside the one before it: what that one uses is not taken away under its feet.

So migrations add. One that takes something away is a contract step: it says in `contracts` which
release was the first that did without it, and can only be made after that release.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence

from tests.architecture.source import (
    ROOT,
    Module,
    assert_clean,
    assert_refuses,
    dotted,
    product,
    sample,
)

MARK = "contracts"
SQL = re.compile(
    r"\b(ALTER\s+TABLE|DROP\s+TABLE|TRUNCATE|DELETE\s+FROM|CREATE\s+UNIQUE)\b", re.IGNORECASE
)
"""Changes to tables that are made with Alembic's operations, at which this can look."""
CALLS = re.compile(
    r"drop_(?!index)\w+|rename_\w+|alter_column|batch_alter_table|delete"
    r"|create_(unique|check|exclude)_constraint|create_foreign_key"
)


def takes_away(module: Module) -> Iterator[str]:
    """What a migration does that the version before may not survive."""
    if "/migrations/versions/" not in module.path or release_of(module):
        return
    hint = f"is for a contract step: {MARK} = the first release that did without it"
    for call in module.find(ast.Call):
        name = called(call)
        if CALLS.fullmatch(name):
            yield module.at(call, f"{name} {hint}")
        elif name == "Column" and must_be_given(call) and not of_new_table(module, call):
            yield module.at(call, f"NOT NULL without a server_default {hint}")
        elif name == "create_index" and is_unique(call) and indexed(call) not in new_tables(module):
            yield module.at(call, f"a unique index of a table that is there {hint}")
    for node in module.find(ast.Constant):
        if isinstance(node.value, str) and (found := SQL.search(node.value)):
            yield module.at(node, f"{found[0]} {hint}, or is to be one of Alembic's operations")


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)


def must_be_given(column: ast.Call) -> bool:
    """Whether who knows nothing of the column cannot store a row."""
    said = {each.arg: each.value for each in column.keywords}
    is_filled = "server_default" in said or "primary_key" in said
    return ast.unparse(said.get("nullable", ast.Constant(True))) == "False" and not is_filled


def is_unique(call: ast.Call) -> bool:
    return any(
        each.arg == "unique" and ast.unparse(each.value) != "False" for each in call.keywords
    )


def indexed(call: ast.Call) -> str:
    """The name of the table that an index is made of; empty where it is no literal."""
    named = [each.value for each in call.keywords if each.arg == "table_name"]
    return literal([*call.args[1:2], *named])


def new_tables(module: Module) -> set[str]:
    """The names of the tables that a migration makes, which nobody has used before."""
    calls = [call for call in module.find(ast.Call) if called(call) in ("create_table", "Table")]
    return {literal(call.args[:1]) for call in calls} - {""}


def literal(found: Sequence[ast.expr]) -> str:
    first = found[0] if found else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def of_new_table(module: Module, column: ast.Call) -> bool:
    around = (each for each in module.around(column) if isinstance(each, ast.Call))
    return any(called(each) in ("create_table", "Table") for each in around)


def release_of(module: Module) -> str:
    """The release that a contract step waits for; empty where the migration is none."""
    for node in module.find(ast.Assign):
        if [dotted(target) for target in node.targets] == [MARK]:
            assert isinstance(node.value, ast.Constant)
            return str(node.value.value)
    return ""


def test_migrations_only_add() -> None:
    assert_clean(takes_away, product())


def releases() -> list[str]:
    return re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_a_release_writes_its_schema_out() -> None:
    firsts = [each for each in product() if each.path.endswith("/versions/0001_first.py")]
    assert len(firsts) == 3
    is_written_out = [any(map(new_tables, [first])) for first in firsts]
    assert is_written_out == [bool(releases())] * 3


def test_contract_steps_wait_for_a_release() -> None:
    released = releases()
    # Before the first one there is none that could run beside it.
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    done = set(released or [about["version"]])
    steps = {module.path: release for module in product() if (release := release_of(module))}
    assert {path: release for path, release in steps.items() if release not in done} == {}


def test_what_takes_away_is_refused() -> None:
    place = "agent_service/storage/migrations/versions/0099_sample.py"
    wrong = (
        'op.drop_table("turn")',
        'op.add_column("turn", sa.Column("color", sa.Text, nullable=False))',
        'op.execute("ALTER TABLE turn ADD COLUMN color text")',
        'op.create_index("turn_usage", table_name="turn", columns=["usage"], unique=True)',
    )
    assert_refuses(takes_away, *(sample(each, place) for each in wrong))
