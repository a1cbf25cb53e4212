"""Jobs without the secrets that somebody has put into their words."""

from typing import TypeVar

from msgspec.structs import replace

from scheduler_service.jobs import Job, JobRequest
from services.redact import Redactor

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
