"""What came of runs, as files of the home that a person reads: `cron/output/<job>/<time>.md`."""

import hashlib
import logging
import re
from pathlib import Path
from zoneinfo import ZoneInfo

from scheduler_service.jobs import Claim
from scheduler_service.storage.runs import KEPT_RUNS_PER_JOB, Ending
from services.home import HomeError, HomePaths, replace_file

_log = logging.getLogger(__name__)

_FILE = re.compile(r"\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}(?:_2)?(?:_[0-9a-f]{8})?\.md")
_FOLDER = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]*")


class OutputFolders:
    """Keeps the latest outputs of each job in the homes of their profiles."""

    def __init__(self, home: HomePaths) -> None:
        self._home = home

    def keep(self, claim: Claim, ending: Ending) -> None:
        """Write what came of a run; the second time changes nothing. What cannot be is logged."""
        job = claim.job
        if _FOLDER.fullmatch(job.id) is None:
            return
        try:
            folder = self._home.profile(job.profile).cron / "output" / job.id
            replace_file(folder / _name(claim), _text(claim, ending), 0o600)
            _forget(folder)
        except (HomeError, OSError) as error:
            _log.warning("the output of run %s is not kept as a file: %s", claim.run_id, error)


def _name(claim: Claim) -> str:
    """By the clock of the job's zone; of an hour that it shows twice, the second is told apart, and
    so is a run that somebody asked for, as others may fall into its second."""
    at = claim.scheduled_for.astimezone(ZoneInfo(claim.job.time_zone))
    name = f"{at:%Y-%m-%d_%H-%M-%S}{'_2' if at.fold else ''}"
    if claim.scheduled_for.microsecond:
        name += f"_{hashlib.sha256(claim.run_id.encode()).hexdigest()[:8]}"
    return f"{name}.md"


def _text(claim: Claim, ending: Ending) -> str:
    job = claim.job
    at = claim.scheduled_for.astimezone(ZoneInfo(job.time_zone))
    facts = [f"- job: {job.id}", f"- schedule: {job.schedule_text} ({job.time_zone})"]
    facts += [f"- due: {at.isoformat(timespec='seconds')}", f"- run: {claim.run_id}"]
    if ending.is_silent:
        facts.append("- told nobody: it had nothing to say")
    parts = [f"# {' '.join(job.name.split())}", "\n".join(facts)]
    parts += [f"## Failed\n\n{ending.error}"] if ending.error else []
    parts += [f"## Not delivered\n\n{ending.delivery_error}"] if ending.delivery_error else []
    parts += [f"## Output\n\n{claim.output}"] if claim.output else []
    return "\n\n".join(parts) + "\n"


def _forget(folder: Path) -> None:
    """Remove all but the latest; what has another name is somebody else's."""
    names = sorted(path.name for path in folder.iterdir() if _FILE.fullmatch(path.name))
    for name in names[:-KEPT_RUNS_PER_JOB]:
        (folder / name).unlink(missing_ok=True)
