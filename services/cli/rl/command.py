"""Run environments: tasks whose results are scored, for training and evaluation."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes.agent.v1.trajectory_pb2_grpc import TrajectoryServiceStub
from services.amounts import plural
from services.cli import process
from services.cli.arguments import INT32, up_to
from services.cli.batch.progress import EXIT_UNFINISHED
from services.cli.command import JSON_LIST, Command, Context, action, arg, flag
from services.cli.console import say
from services.cli.output import Column, print_json, print_table
from services.cli.rl.atropos import serve
from services.cli.rl.evaluation import ALL, Figures, Group, summarize, task_id
from services.cli.rl.runs import (
    BATCH_OPTIONS,
    MAX_GROUP,
    OPTIONS,
    EnvironmentRun,
    home_of,
    run_environment,
)
from services.cli.trajectories.reader import read_trajectories
from services.errors import InvalidArgument
from services.home.batches.environment import Environment, list_environments, load_tasks
from services.home.batches.reward import reward
from services.home.paths import check_place, replacement
from services.home.trajectories.openai_messages import openai_record

EXAMPLES = """\
examples:
  hermes rl list
  hermes rl evaluate terminal_test_env --model small
  hermes rl evaluate terminal_test_env --group-size 4 --json
  hermes rl process terminal_test_env --out groups.jsonl --groups 100 --group-size 8
  hermes rl serve terminal_test_env --tokenizer ~/models/qwen3 --group-size 8

If the command or Hermes is stopped, run the same command again to continue."""


class _Listed(Struct, frozen=True):
    """An environment as it is listed."""

    name: str
    path: Path
    task_count: int | None
    problem: str = ""


LISTED = (
    Column("name"),
    Column("tasks", "task_count"),
    Column("problem", cell=lambda text: text.partition("\n")[0]),
)


def _list(context: Context) -> None:
    """List environments."""
    found = [_listed(each) for each in list_environments(home_of(context))]
    context.print_list(found, LISTED, "")


def _listed(environment: Environment) -> _Listed:
    try:
        count = len(load_tasks(environment))
    except InvalidArgument as error:
        return _Listed(environment.name, environment.path, None, error.message)
    return _Listed(environment.name, environment.path, count)


async def _evaluate(context: Context) -> int:
    """Try each task, and show scores and success rates."""
    run = await run_environment(context, "evaluate")
    if not run.items:
        return EXIT_UNFINISHED
    figures = summarize(run.groups())
    if context.given.json:
        print_json(_report(run, figures))
    else:
        _print(run, figures)
    return 0 if run.is_complete else EXIT_UNFINISHED


def _report(run: EnvironmentRun, figures: Figures) -> dict[str, Any]:
    return {
        "run": run.batch.name,
        "complete": run.is_complete,
        "group_size": run.group_size,
        **figures[ALL],
        "tags": {name: row for name, row in figures.items() if name != ALL},
        "results": [
            {"id": task_id(group[0]), "scores": [item.result.score for item in group]}
            for group in run.groups()
        ],
    }


def _print(run: EnvironmentRun, figures: Figures) -> None:
    headings = ["tag", "tasks", "failed", "score", "reward", "pass@1"]
    many = run.group_size > 1
    rows = list[list[str]]()
    for name, row in figures.items():
        means = ("mean_score", "mean_reward", "pass_1", *(("pass_k",) if many else ()))
        cells = [f"{row[mean]:.3f}" for mean in means]
        rows.append([name, str(row["tasks"]), str(row["failed"]), *cells])
    print_table([*headings, *([f"pass@{run.group_size}"] if many else [])], rows)
    say(f"\nto see each item: hermes batch items {run.batch.name}")


async def _process(context: Context) -> int:
    """Write groups of scored attempts, as an Atropos environment's `process` does."""
    given = context.given
    await asyncio.to_thread(check_place, given.out)
    run = await run_environment(context, "process", given.groups or 0)
    count, whole = 0, [each for each in run.groups() if len(each) == run.group_size]
    with replacement(given.out, 0o600) as file:
        for group in whole:
            if written := await _group(context, group):
                file.write(msgspec.json.encode(written) + b"\n")
                count += 1
    context.print_value(
        {"run": run.batch.name, "complete": run.is_complete, "groups": count},
        f"wrote {plural(count, 'group')} to {given.out}",
    )
    return 0 if run.is_complete else EXIT_UNFINISHED


async def _group(context: Context, group: Group) -> dict[str, Any] | None:
    """Return what is written of a group; None if an attempt has no conversation."""
    stub, turns = context.stub(TrajectoryServiceStub), [item.turn_id for item in group]
    read = [each async for each in read_trajectories(stub, context.profile, turns)]
    records = [openai_record(each) for each in read if each is not None]
    if len(records) < len(group):
        return None
    return {
        "task": task_id(group[0]),
        "scores": [reward(item) for item in group],
        "messages": [record["messages"] for record in records],
        "tools": records[0]["tools"],
    }


_CALLED = ("scheduler", "agent")


def _size(default: int) -> Any:
    meaning = f"attempts at each task ({default})"
    return arg("--group-size N", meaning, up_to(MAX_GROUP, 1), default=default)


_SEED = arg("--seed N", "seed for the order of the tasks (0)", up_to(INT32), default=0)

COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_list, JSON_LIST),
        action(_evaluate, *BATCH_OPTIONS, _size(1), services=_CALLED, started=process.ALL),
        action(
            _process,
            *BATCH_OPTIONS,
            _size(4),
            arg("--out FILE", "write the groups into this file", Path, required=True),
            arg("--groups N", "number of groups (each task once)", up_to(INT32, 1)),
            _SEED,
            services=_CALLED,
            started=process.ALL,
        ),
        action(
            serve,
            *OPTIONS,
            _size(4),
            arg("--groups N", "groups to run in parallel (4)", up_to(256, 1), default=4),
            _SEED,
            arg("--tokenizer NAME", "tokenizer folder or Hugging Face name", required=True),
            arg(
                "--atropos URL",
                "URL of Atropos' run-api (http://localhost:8000)",
                default="http://localhost:8000",
            ),
            arg("--eval-every N", "run each task once every N steps", up_to(INT32), default=0),
            flag("--wandb", "report to Weights & Biases"),
            services=_CALLED,
            started=process.ALL,
        ),
    ),
    defaults={"seed": 0},
)
