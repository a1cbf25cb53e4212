"""Jobs of files on the wire."""

from collections.abc import Sequence

from hermes.scheduler.v1 import job_file_pb2 as pb
from hermes.scheduler.v1 import job_pb2
from scheduler_service.convert.common import profile_of
from scheduler_service.convert.jobs import job_request, job_to_wire
from scheduler_service.jobs import Job
from scheduler_service.moving import JobFile, Moved


def check_job(job: Job) -> None:
    """Refuse what nobody could ask for by CreateJob; raises InvalidArgument."""
    message = job_to_wire(job)
    job_request(
        job_pb2.CreateJobRequest(
            job_id=message.job_id,
            profile=job.profile,
            schedule=message.schedule,
            time_zone=message.time_zone,
            prompt=message.prompt,
            name=message.name,
            origin=message.origin if message.HasField("origin") else None,
            sandbox_template=message.sandbox_template,
            unattended=message.unattended,
            options=message.options,
        )
    )


def file_of(message: pb.ImportJobsRequest) -> JobFile:
    """Read what is to be taken."""
    return JobFile(
        profile=profile_of(message.profile),
        document=message.document,
        time_zone=message.time_zone,
        scripts=dict(message.scripts),
        is_paused=message.is_paused,
        dry_run=message.dry_run,
        closes_home=message.closes_home,
    )


def moved_to_wire(moved: Sequence[Moved]) -> pb.ImportJobsResponse:
    """Return the message of what became of the jobs of a file."""
    return pb.ImportJobsResponse(
        jobs=[
            pb.ImportedJob(
                job_id=each.job_id, name=each.name, outcome=_outcome(each), notes=each.notes
            )
            for each in moved
        ]
    )


def _outcome(moved: Moved) -> "pb.ImportOutcome.ValueType":
    if not moved.job_id:
        return pb.IMPORT_OUTCOME_LEFT
    return pb.IMPORT_OUTCOME_TAKEN if moved.is_new else pb.IMPORT_OUTCOME_PRESENT
