"""Shows a turn as it happens."""

from collections.abc import Callable

from hermes.agent.v1.turn_event_pb2 import TurnEvent, TurnFinished
from services.cli.chat.screen import Screen
from services.cli.chat.tool_view import Lines, ToolView


class TurnView:
    """Writes events as lines, and the answer's words once each as they arrive."""

    def __init__(
        self,
        screen: Screen,
        *,
        fold: Callable[[Lines], object] | None = None,
        tells_failure: bool = True,
    ) -> None:
        self._screen = screen
        self._tools = ToolView(screen, fold)
        self._tells_failure = tells_failure
        self._attempt = self._step = self._written = 0
        self._has_begun = False

    def show(self, event: TurnEvent) -> None:
        if event.attempt != self._attempt:
            self._attempt = event.attempt
            self._restart()
        match event.WhichOneof("kind"):
            case "turn_started":
                self._has_begun = True
            case "text_delta":
                self._say(event.text_delta.step, event.text_delta.offset, event.text_delta.text)
            case "text_snapshot":
                self._say(event.text_snapshot.step, 0, event.text_snapshot.text)
            case "text_finished":
                self._say(event.text_finished.step, 0, event.text_finished.text)
                self._screen.end_line()
                self._tools.begin(event.text_finished.tool_call_count)
            case "notice" if event.notice.keeps_text:
                self._screen.end_line()
                self._screen.line(event.notice.text, "yellow")
            case "notice":
                self._remark(event.notice.text, "yellow")
            case "compressed":
                before, after = (
                    event.compressed.before_token_count,
                    event.compressed.after_token_count,
                )
                text = f"The conversation was compressed from about {before:,} to {after:,} tokens."
                self._remark(text, "dim")
            case "turn_finished":
                self._show_end(event.turn_finished)
            case _:
                self._tools.show(event)

    def pending(self) -> str:
        """Return the rows of running calls that are not written yet."""
        return self._tools.pending()

    def _remark(self, text: str, style: str) -> None:
        self._restart()
        self._screen.line(text, style)

    def _say(self, step: int, offset: int, text: str) -> None:
        """Write the new part; snapshots and whole texts repeat earlier parts."""
        if step != self._step:
            self._step, self._written = step, 0
        if new := text[max(0, self._written - offset) :]:
            self._screen.words(new)
            self._written = offset + len(text)

    def _restart(self) -> None:
        self._screen.end_line()
        self._written = 0

    def _show_end(self, finished: TurnFinished) -> None:
        self._screen.end_line()
        message, style = shortfall(finished)
        if self._tells_failure and message:
            self._screen.line(message, style)
        if not self._has_begun and finished.completed.answer:
            # A message that joined another turn has no other answer.
            self._screen.line(finished.completed.answer, "dim")


def shortfall(finished: TurnFinished) -> tuple[str, str]:
    """Return why a turn has no answer, and its style; empty if it has one."""
    match finished.WhichOneof("outcome"):
        case "completed":
            return "", ""
        case "failed":
            return finished.failed.failure.message, "red"
        case "cancelled":
            return ": ".join(filter(None, ("interrupted", finished.cancelled.message))), "yellow"
        case "limit_reached":
            return finished.limit_reached.message, "yellow"
        case _:
            return finished.needs_review.message, "red"
