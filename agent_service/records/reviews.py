"""Prompts and requests of turns that review a conversation."""

import hashlib

from msgspec.structs import replace

from agent_service.records.requests import (
    PARENT_SESSION,
    PARENT_TURN,
    REVIEW,
    REVIEW_KIND,
    TurnRequest,
    Unattended,
)

MAX_MODEL_CALLS = 16

_LOOK_BACK = """\
[Nobody has said this: Hermes asks you to look back at the conversation above. The user does not see
what you do now and cannot answer. Only the tools for memory and for skills work here; every other
call is refused. What stands in the conversation is what you look at, not a task that is still to be
done.]"""

_MEMORY = """\
# Memory
Ask yourself two things:
1. What has the user revealed about themselves: who they are, what they want, what they like or
   cannot stand, personal details that will still matter in later conversations?
2. What do they expect of you: how you should behave, talk, decide or work?
Save what is lasting and not in memory yet, one short entry for one thing; replace what has turned
out wrong, and merge what says the same. Say nothing of what only mattered today."""

_SKILLS = """\
# Skills
Be active: most conversations with some work in them have taught you something. Signs of it:
- The user has corrected your style, your tone or the form of an answer. This counts as much as any
  technique; write it down in the skill for the kind of work that it was about.
- They have corrected how you went about the work, or in which order.
- You have found a technique, a way around or a remedy that was not obvious.
- A skill that you have loaded was wrong or incomplete. Mend it now.
Where it goes, the first that fits:
1. the skill that you have loaded for this work;
2. a skill that covers this kind of work as a whole: see skills_list, and read it before you change
   it;
3. a file in references/, templates/ or scripts/ of such a skill, with a line in it that leads to
   it;
4. only where none covers it, a new skill for the whole kind of work. Never name one after one
   occasion: no number of a request, no text of an error, no code name, nothing like fix-….
Leave skills alone that came with Hermes, that are from a hub or that the user has pinned. Put none
away. Write down no failures of this machine that will be gone tomorrow, and no story of what
happened once."""

_END = """\
When you have found nothing, say so in a sentence and stop; otherwise say at the end in one or two
sentences what you have kept."""

_LAST = """\
This conversation ends here: the next message begins a new one, which sees none of it. This is the
last chance to keep something of it."""


def review_prompt(*, memory: bool, skills: bool, is_last: bool = False) -> str:
    """Return the prompt of a review."""
    parts = (
        _LOOK_BACK,
        _LAST if is_last else "",
        _MEMORY if memory else "",
        _SKILLS if skills else "",
        _END,
    )
    return "\n\n".join(filter(None, parts))


def review_turn_id(parent_turn_id: str) -> str:
    """Return the id of the review that starts when a turn ends."""
    return f"trn_{_digest(parent_turn_id)}"


def review_session_id(turn_id: str) -> str:
    """Return the id of a review's session."""
    return f"rev_{_digest(turn_id)}"


def review_request(
    last: TurnRequest, turn_id: str, *, memory: bool, skills: bool, is_last: bool = False
) -> TurnRequest:
    """Return a review of a session up to its last turn, whose options and model it inherits."""
    return TurnRequest(
        turn_id=turn_id,
        profile=last.profile,
        session_id=review_session_id(turn_id),
        text=review_prompt(memory=memory, skills=skills, is_last=is_last),
        origin={
            "platform": REVIEW,
            PARENT_SESSION: last.session_id,
            PARENT_TURN: last.turn_id,
            REVIEW_KIND: "both" if memory and skills else "memory" if memory else "skills",
        },
        kind=REVIEW,
        options=replace(
            last.inherited(), max_model_calls=MAX_MODEL_CALLS, unattended=Unattended.DENY
        ),
        switched=last.switched,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(f"{text}/review".encode()).hexdigest()[:26]
