"""What an editor is shown of a tool call."""

from services.cli.acp.updates import fenced, preview

RESULT = "[Untrusted data 0123456789ab from a page]\nhello\n[End of untrusted data 0123456789ab]"


def test_marks_for_the_model_are_left_out_of_results_only() -> None:
    shown = preview(RESULT).content
    assert shown.type == "text"
    assert shown.text == "```\nhello\n```"
    # What a person approves is shown whole: a command may have such lines of its own.
    asked = fenced(f"echo {RESULT}; rm -r src").content
    assert asked.type == "text"
    assert RESULT in asked.text
