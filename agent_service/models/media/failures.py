"""What failures of providers of speech, sound and pictures mean to people."""

from http import HTTPStatus

MOST_SHOWN_CHARS = 300


class MediaFailed(Exception):
    """The provider made nothing; the message says why."""


def explain(provider: str, setting: str, status: int | None, said: str) -> str:
    """What to do about a failed call; `setting` has the provider's key."""
    match status:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return f"{provider} rejected the key; check {setting}."
        case HTTPStatus.PAYMENT_REQUIRED:
            return f"The credit at {provider} is used up."
        case HTTPStatus.TOO_MANY_REQUESTS:
            return f"{provider} has too many requests now, or the quota is used up. Try it later."
        case None:
            return f"{provider} did not answer: {said[:MOST_SHOWN_CHARS] or 'no connection'}."
        case _:
            return f"{provider} refused it ({status}): {said[:MOST_SHOWN_CHARS]}"
