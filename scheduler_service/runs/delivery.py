"""Notifications about runs, and the files that keep their outputs."""

import hashlib
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from scheduler_service.jobs import Claim, Origin
from scheduler_service.options import LOCAL, ORIGIN
from scheduler_service.runs.prompts import is_silent
from scheduler_service.schedule.schedule import Once
from scheduler_service.storage.runs import KEPT_RUNS_PER_JOB, Ending
from services.home.paths import HomeError, HomePaths, replace_file

_FILE = re.compile(r"\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}(?:_2)?(?:_[0-9a-f]{8})?\.md")
_FOLDER = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]*")
TERMINAL = "cli"
"""The platform name of terminals."""
_ONCE = "You will not hear of further failures until it works again."

_log = logging.getLogger(__name__)


class Notification(Struct, frozen=True):
    """A text and the targets that receive it."""

    text: str
    """Empty if there is nothing to deliver."""
    targets: tuple[str, ...]
    origin: Origin | None
    """The chat that the job was asked for in."""
    job_name: str = ""
    """Empty if the text itself names the job."""

    def text_for(self, target: str) -> str:
        """Return the text for a target; on terminals, which all jobs share, with the job's name."""
        platform = target.partition(":")[0]
        if target == ORIGIN and self.origin is not None:
            platform = self.origin.platform
        if platform != TERMINAL or not self.job_name:
            return self.text
        return f'The job "{self.job_name}" has come to:\n\n{self.text}'


def build_notification(claim: Claim, *, failed_before: bool) -> Notification:
    """Build the notification about a run whose turn has ended.

    Of several failures in a row only the first is reported, and then the recovery.
    """
    job = claim.job
    origin, asked = job.spec.origin, job.spec.options.deliver_to or (ORIGIN,)
    is_reached = (_is_reached(target, asked, origin) for target in asked)
    reached = [target for target, is_one in zip(asked, is_reached, strict=True) if is_one]
    is_named = bool(claim.error) or failed_before
    text = _text(claim, failed_before=failed_before)
    name = "" if is_named else job.spec.name
    return Notification(text, tuple(dict.fromkeys(reached)), origin, name)


def _is_reached(target: str, others: Sequence[str], origin: Origin | None) -> bool:
    """Return whether a target names a chat that no other one does."""
    if target == ORIGIN:
        return origin is not None
    if origin is None or ORIGIN not in others:
        return target != LOCAL
    chat = (origin.platform, origin.chat_id, origin.thread_id)
    return target not in (LOCAL, ":".join(filter(None, chat)))


def _text(claim: Claim, *, failed_before: bool) -> str:
    name = claim.job.spec.name
    text = "" if is_silent(claim.output) else claim.output
    if not claim.error:
        again = f'The job "{name}" works again.' if failed_before else ""
        return "\n\n".join(filter(None, (again, text)))
    if failed_before:
        return ""
    report = f'The job "{name}" failed: {claim.error}'
    # A job that runs once cannot fail repeatedly.
    once = "" if isinstance(claim.job.schedule, Once) else _ONCE
    return "\n\n".join(filter(None, (report, once, text)))


class OutputFolders:
    """Keeps the latest outputs of each job in the home of its profile."""

    def __init__(self, home: HomePaths) -> None:
        self._home = home

    def keep(self, claim: Claim, ending: Ending) -> None:
        """Write the output of a run to a file, once; failures are logged."""
        job = claim.job
        if _FOLDER.fullmatch(job.id) is None:
            return
        try:
            folder = self._home.profile(job.profile).cron / "output" / job.id
            replace_file(folder / _name(claim), _document(claim, ending), 0o600)
            _forget(folder)
        except (HomeError, OSError) as error:
            _log.warning("the output of run %s is not kept as a file: %s", claim.run_id, error)


def _name(claim: Claim) -> str:
    """Name a file by the time in the job's zone, marked where another run may share the second."""
    at = claim.scheduled_for.astimezone(ZoneInfo(claim.job.spec.time_zone))
    name = f"{at:%Y-%m-%d_%H-%M-%S}{'_2' if at.fold else ''}"
    if claim.scheduled_for.microsecond:
        name += f"_{hashlib.sha256(claim.run_id.encode()).hexdigest()[:8]}"
    return f"{name}.md"


def _document(claim: Claim, ending: Ending) -> str:
    job = claim.job
    at = claim.scheduled_for.astimezone(ZoneInfo(job.spec.time_zone))
    facts = [f"- job: {job.id}", f"- schedule: {job.spec.schedule} ({job.spec.time_zone})"]
    facts += [f"- due: {at.isoformat(timespec='seconds')}", f"- run: {claim.run_id}"]
    if ending.is_silent:
        facts.append("- not delivered: it had nothing to say")
    parts = [f"# {' '.join(job.spec.name.split())}", "\n".join(facts)]
    parts += [f"## Failed\n\n{ending.error}"] if ending.error else []
    parts += [f"## Not delivered\n\n{ending.delivery_error}"] if ending.delivery_error else []
    parts += [f"## Output\n\n{claim.output}"] if claim.output else []
    return "\n\n".join(parts) + "\n"


def _forget(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir() if _FILE.fullmatch(path.name))
    for name in names[:-KEPT_RUNS_PER_JOB]:
        (folder / name).unlink(missing_ok=True)
