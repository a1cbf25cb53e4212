"""Shows the report on a batch as one HTML page that loads nothing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from services.amounts import dollars, plural
from services.cli.batch.plots import Bar, bars, escaped, histogram, short
from services.cli.batch.report import ItemSummary, Report, state_word
from services.cli.output import NOTHING, duration, local_time
from services.home.paths import replace_file

_MOST_ITEMS = 100


def write_page(report: Report, file: Path) -> None:
    """Write the page into a file."""
    replace_file(file, _page(report), 0o600)


def _page(report: Report) -> str:
    name, state = escaped(report.batch.name), escaped(state_word(report.batch).replace("_", " "))
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    # The policy holds even if text of a model came to be markup.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>Batch {name}</title>
<style>
{style}</style>
</head>
<body>
<h1>{name} <span class="state">{state}</span></h1>
{_about(report)}
<div class="tiles">{"".join(_tiles(report))}</div>
<div class="plots">{"".join(_plots(report))}</div>
{_table(report)}
</body>
</html>
"""


def _about(report: Report) -> str:
    batch, options = report.batch, report.batch.options
    models = sorted({item.model for item in report.items if item.model})
    facts = [
        ("model", ", ".join(models) or options.model),
        ("workers", options.worker_count),
        ("distribution of toolsets", options.distribution),
        ("seed", options.seed if options.distribution else ""),
        ("model calls per item", options.max_model_calls and f"at most {options.max_model_calls}"),
        ("budget", options.budget_micro_usd and dollars(options.budget_micro_usd)),
        ("sandbox", options.sandbox_template),
        ("created", local_time(batch.create_time) if batch.HasField("create_time") else ""),
        ("finished", local_time(batch.finish_time) if batch.HasField("finish_time") else ""),
    ]
    text = " · ".join(f"{name}: {escaped(value)}" for name, value in facts if value not in ("", 0))
    reason = f"<p>{escaped(batch.reason)}</p>" if batch.reason else ""
    return f"<p>{text}</p>{reason}"


def _tiles(report: Report) -> Iterable[str]:
    batch, usage, done = report.batch, report.batch.usage, report.batch.done_count
    passed_s = report.passed_s
    yield _tile(f"{done:,}", f"of {batch.item_count:,} items done")
    if done:
        yield _tile(
            f"{100 * batch.success_count / done:.1f} %", f"succeeded: {batch.success_count:,}"
        )
    yield _tile(f"{batch.failed_count:,}", "failed")
    if report.mean_score is not None:
        yield _tile(f"{report.mean_score:.3f}", f"mean score of {len(report.scores):,}")
    each = f", {dollars(usage.cost_micro_usd // done)} per item" if done else ""
    yield _tile(dollars(usage.cost_micro_usd), f"cost{each}")
    tokens_in, tokens_out = usage.prompt_tokens, usage.completion_tokens
    text = f"tokens: {short(tokens_in)} in, {short(tokens_out)} out"
    yield _tile(short(tokens_in + tokens_out), text)
    yield _tile(duration(passed_s), "to the last end")
    if passed_s:
        yield _tile(f"{short(60 * done / passed_s)}", "items a minute")


def _tile(value: str, what: str) -> str:
    return f'<div class="tile"><b>{escaped(value)}</b><span>{escaped(what)}</span></div>'


def _plots(report: Report) -> Iterable[str]:
    if not report.items:
        return
    unit, unit_s = next(
        (name, size)
        for name, size, most in (
            ("seconds", 1, 300),
            ("minutes", 60, 18_000),
            ("hours", 3600, 1e99),
        )
        if report.passed_s < most
    )
    ended = [item.ended_s / unit_s for item in report.items]
    failed = [item.ended_s / unit_s for item in report.items if item.has_failed]
    yield histogram("Progress", unit, ended, failed, report.passed_s / unit_s)
    if report.scores:
        yield histogram("Scores", "score", report.scores, most=1)
    yield histogram("Time per item", "seconds", [item.lasted_s for item in report.items])
    yield histogram("Tokens per item", "tokens", [item.tokens for item in report.items])
    bad = Counter(item.finish_reason for item in report.items if item.has_failed)
    reasons = [
        Bar(name, count, plural(count, "item"), bad[name])
        for name, count in report.finish_reasons.items()
    ]
    yield bars("How items ended", reasons)
    tools = sorted(report.tools.items(), key=lambda tool: -tool[1]["calls"])
    if tools:
        yield bars("Calls by tool", [_tool_bar(name, use) for name, use in tools])


def _tool_bar(name: str, use: dict[str, int]) -> Bar:
    calls, failures = use["calls"], use["failures"]
    each_s = use["duration_ms"] / 1000 / max(calls, 1)
    failed = f", {failures:,} failed" if failures else ""
    note = f"{plural(calls, 'call')}{failed}, {short(each_s)} s each"
    return Bar(name, calls, note, failures)


def _table(report: Report) -> str:
    poor = sorted((item for item in report.items if not item.has_succeeded), key=_rank)
    if not poor:
        return ""
    shown = poor[:_MOST_ITEMS]
    rows = "".join(map(_row, shown))
    text = plural(len(poor), "item") + (f", the first {len(shown)}" if poor[len(shown) :] else "")
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    return (
        f"<h2>Failed, or with a low score: {text}</h2>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    )


_HEADS = ("Item", "Ended", "Score", "Time", "Tokens", "Cost", "Session", "What happened")


def _rank(item: ItemSummary) -> tuple[bool, float]:
    return (not item.has_failed, item.score or 0)


def _row(item: ItemSummary) -> str:
    cells: Sequence[tuple[str, str]] = (
        ("text", item.id),
        ("", item.finish_reason),
        ("number", NOTHING if item.score is None else short(item.score)),
        ("number", duration(item.lasted_s)),
        ("number", short(item.tokens)),
        ("number", dollars(item.cost_micro_usd)),
        ("text", item.session_id),
    )
    plain = "".join(
        f'<td class="{kind}" data-label="{head}">{escaped(text)}</td>'
        for head, (kind, text) in zip(_HEADS[:-1], cells, strict=True)
    )
    prompt, why = escaped(item.prompt), escaped(item.problem)
    return f'<tr>{plain}<td class="text what">{why}<span>{prompt}</span></td></tr>'
