"""Jobs without the secrets that somebody has put into their words."""

from typing import TypeVar

from msgspec.structs import replace

from scheduler_service.jobs import Job, JobRequest
from services.redact import MASK, Redactor

_Words = TypeVar("_Words", Job, JobRequest)


def without_secrets(job: _Words, redactor: Redactor) -> _Words:
    """The job as it is stored, shown and run."""
    script = redactor.redact_program(job.options.script)
    return replace(
        job,
        name=redactor.redact(job.name),
        prompt=redactor.redact(job.prompt),
        options=replace(job.options, script=script),
    )


def notes_on(job: Job) -> tuple[str, ...]:
    """What whoever has put secrets into a job is to know of it, also asked again."""
    notes = list[str]()
    # A name that nobody gives it is the beginning of its prompt.
    what, text = ("prompt", job.prompt) if MASK in job.prompt else ("name", job.name)
    if (count := text.count(MASK)) > 0:
        notes.append(f"{_counted(count)} taken out of its {what}, where {MASK} stands now")
    if (count := job.options.script.count(MASK)) > 0:
        notes.append(
            f"{_counted(count)} taken out of its script, which does not run as it was written: "
            "let it use a variable instead, such as $GITHUB_TOKEN, whose value is in "
            "`executor.secrets` (docs/network.md)"
        )
    return tuple(notes)


def _counted(count: int) -> str:
    return "1 secret was" if count == 1 else f"{count} secrets were"
