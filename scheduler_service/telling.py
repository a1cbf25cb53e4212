"""What a chat is told of a run; pure functions."""

from msgspec import Struct

from scheduler_service.jobs import Claim, Origin
from scheduler_service.options import LOCAL, ORIGIN, Target
from scheduler_service.prompts import is_silent
from scheduler_service.schedule import Once

TERMINAL = "cli"
"""The platform of terminals."""
_AT_ORIGIN = (Target(ORIGIN),)
_ONCE = "Further failures of it are not told, until it works again."


class Telling(Struct, frozen=True):
    """What is delivered, and where to."""

    text: str
    """Empty is nothing."""
    to: tuple[Origin, ...]
    job_name: str = ""
    """Where the text does not begin with it."""

    def text_for(self, to: Origin) -> str:
        """What is told in one place: a terminal, which may be any, is told what speaks there."""
        if to.platform != TERMINAL or not self.job_name:
            return self.text
        return f'The job "{self.job_name}" has come to:\n\n{self.text}'


def telling_of(claim: Claim, *, failed_before: bool) -> Telling:
    """What is told of a run whose turn has ended, given whether the run before it had failed.

    Of failures in a row the first is told, and that they are over.
    """
    job = claim.job
    places = [_place(target, job.origin) for target in job.options.deliver_to or _AT_ORIGIN]
    to = tuple(dict.fromkeys(place for place in places if place is not None))
    is_named = bool(claim.error) or failed_before
    text = _text(claim, failed_before=failed_before)
    return Telling(text, to, "" if is_named else job.name)


def _place(target: Target, origin: Origin | None) -> Origin | None:
    if target.platform == ORIGIN:
        return origin
    if target.platform == LOCAL:
        return None
    return Origin(target.platform, target.chat_id, target.thread_id)


def _text(claim: Claim, *, failed_before: bool) -> str:
    name = claim.job.name
    said = "" if is_silent(claim.output) else claim.output
    if not claim.error:
        again = f'The job "{name}" works again.' if failed_before else ""
        return "\n\n".join(filter(None, (again, said)))
    if failed_before:
        return ""
    report = f'The job "{name}" failed: {claim.error}'
    # What happens once cannot happen again.
    once = "" if isinstance(claim.job.schedule, Once) else _ONCE
    return "\n\n".join(filter(None, (report, once, said)))
