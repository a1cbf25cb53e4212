"""The line below the input, as it follows a conversation."""

import time

from hermes.agent.v1 import turn_event_pb2 as pb
from hermes.agent.v1.session_pb2 import Session
from hermes.common.v1.usage_pb2 import Usage
from services.cli.chat.status import Status


def follow(status: Status, **kind: object) -> None:
    status.follow(pb.TurnEvent(**kind))  # pyright: ignore[reportArgumentType]


def test_it_tells_what_is_done_and_what_the_session_has_used() -> None:
    status = Status()
    assert status.render(is_busy=False) == ""
    follow(status, turn_started=pb.TurnStarted(model="otter-1"))
    assert status.render(is_busy=True)[1:] == " 0 s waiting for the model · otter-1"
    follow(status, prompt_progress=pb.PromptProgress(read_tokens=1000, total_tokens=4000))
    assert " reading the prompt (25 %) · " in status.render(is_busy=True)
    follow(status, text_delta=pb.TextDelta(text="Hello"))
    assert " answering · " in status.render(is_busy=True)
    time.sleep(0.25)
    usage = Usage(prompt_tokens=7000, completion_tokens=500, cost_micro_usd=20_000)
    for step in (1, 2):
        reported = pb.UsageReported(step=step, usage=usage, window_tokens=131_072)
        follow(status, usage_reported=reported)
    follow(status, tool_started=pb.ToolStarted(name="terminal"))
    assert " terminal · " in status.render(is_busy=True)
    follow(status, tool_finished=pb.ToolFinished(backend="docker"))
    speed, *rest = status.render(is_busy=False).split(" · ")
    assert 500 < int(speed.removesuffix(" tokens/s")) <= 2500
    assert rest == ["otter-1", "7.5k of 131k tokens", "$0.0400", "docker"]


def test_a_session_begins_with_its_own_cost() -> None:
    status = Status()
    follow(status, usage_reported=pb.UsageReported(usage=Usage(prompt_tokens=9000)))
    status.begin_session(Session(model="otter-2", usage=Usage(cost_micro_usd=1_500_000)))
    assert status.render(is_busy=False) == "otter-2 · $1.50"


def test_a_condensed_conversation_uses_less() -> None:
    status = Status()
    follow(status, usage_reported=pb.UsageReported(usage=Usage(prompt_tokens=9000)))
    follow(status, compressed=pb.Compressed(before_token_count=9000, after_token_count=3000))
    assert status.render(is_busy=False) == "3.0k tokens"
