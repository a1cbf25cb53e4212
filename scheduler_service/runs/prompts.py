"""The prompt of a run and the meaning of its answer; pure functions."""

from collections.abc import Sequence

from scheduler_service.clients import Output
from scheduler_service.jobs import Context, Job

SILENT = "[SILENT]"
"""An answer that begins with this is kept but not delivered."""

_MAX_CONTEXT_CHARS = 20_000

_ALONE = (
    "You work on the scheduled job “{name}”. Nobody follows along and nobody can answer questions: "
    "decide what is left open yourself, and say what you decided. Your last answer is delivered as "
    "it stands, so let it be the result itself. Where there is nothing that is worth being told, "
    f"answer with {SILENT} and nothing else."
)
_BLOCKED = (
    "What the job “{name}” came to last is kept from you: it looks like an attack ({families})."
)
_NO_CONTEXT = "The job “{name}” has come to nothing yet."


def own_words(job: Job) -> str:
    """Return the words of the job's author, to be scanned for attacks."""
    return f"{job.spec.name}\n{job.spec.prompt}"


def instructions(job: Job) -> str:
    """Return the system message of a run's session."""
    return _ALONE.format(name=_line(job.spec.name))


def parts(job: Job, contexts: Sequence[Context]) -> list[str | Output]:
    """Return the parts of the message: the job's prompt, then the outputs of other jobs."""
    asked = [job.spec.prompt] if job.spec.prompt.strip() else []
    return [*asked, *map(_render, contexts)]


def is_silent(output: str) -> bool:
    """Whether an answer is not delivered."""
    text = output.strip()
    return not text or text.upper().startswith(SILENT)


def _line(name: str) -> str:
    return " ".join(name.split())


def _render(context: Context) -> str | Output:
    if not context.output.strip():
        return _NO_CONTEXT.format(name=_line(context.name))
    if context.families:
        return _BLOCKED.format(name=_line(context.name), families=", ".join(context.families))
    output = context.output[:_MAX_CONTEXT_CHARS]
    if len(context.output) > len(output):
        output += "\n… (this was longer)"
    return Output(context.name, output)
