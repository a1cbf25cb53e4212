"""Reasoning that models write between tags in their text, however the network cuts it."""

import pytest

from agent_service.models.thought_tags import ThoughtTags

HI = "The user is in a hurry."
FINAL = "<|start|>assistant<|channel|>final<|message|>"


def read(text: str, chars: int, *, begun: bool = False) -> tuple[ThoughtTags, str, str]:
    """The tags of a text that comes in pieces, and what was shown of it."""
    tags = ThoughtTags(begun=begun)
    shown = [tags.feed(text[at : at + chars]) for at in range(0, len(text), chars)]
    shown += [tags.feed("", is_last=True), tags.feed("", is_last=True)]
    return tags, "".join(answer for answer, _ in shown), "".join(thought for _, thought in shown)


@pytest.mark.parametrize("chars", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        (f"<think>\n{HI}</think>\n\nHello!", "Hello!", HI),
        (f"\n <THINKING>{HI}</Thinking>Hello!", "Hello!", HI),
        (f"<reasoning>{HI}</reasoning>\nHello!", "Hello!", HI),
        (f"<thought>{HI}</thought>Hello!", "Hello!", HI),
        (f"<REASONING_SCRATCHPAD>{HI}</REASONING_SCRATCHPAD>\nHello!", "Hello!", HI),
        (f"<seed:think>{HI}</seed:think>Hello!", "Hello!", HI),
        (f"[THINK]{HI}[/THINK]Hello!", "Hello!", HI),
        (f"◁think▷{HI}◁/think▷Hello!", "Hello!", HI),
        (f'<think budget="5">{HI}</think >Hello!', "Hello!", HI),
        (f"<thinking_process>{HI}</thinking_process>Hello!", "Hello!", HI),
        (f"<inner_thoughts>{HI}</inner_thoughts>Hello!", "Hello!", HI),
        (f"<think_fast>{HI}</think_fast>Hello!", "Hello!", HI),
        (f"<|inner_prefix|>{HI}<|inner_suffix|>Hello!", "Hello!", HI),
        (f"<antThinking>{HI}</antThinking>Hello!", "Hello!", HI),
        (f"<|think|>{HI}<|/think|>Hello!", "Hello!", HI),
        (
            f"<|begin_of_thought|>{HI}\n<|end_of_thought|>\n\n<|begin_of_solution|>Hello!",
            "Hello!",
            HI,
        ),
        (f"<|START_THINKING|>{HI}<|END_THINKING|><|START_RESPONSE|>Hello!", "Hello!", HI),
        (f"<|channel|>analysis<|message|>{HI}<|end|>{FINAL}Hello!<|return|>", "Hello!", HI),
        (f"<|channel>thought\n{HI}<channel|>Hello!", "Hello!", HI),
        ("<think>\n\n</think>\n\nHello!", "Hello!", ""),
        ("<think>One.</think>\n<think>Two.</think>\nHello!", "Hello!", "One.Two."),
        (f"I look.\n<think>{HI}</think>\nHello!", "I look.\nHello!", HI),
        (f"<think>{HI} 1 < 2, </thin", "", f"{HI} 1 < 2, </thin"),
        (f"<analysis>{HI}</analysis>\nHello!", "Hello!", HI),
        ("</think>\n\nHello!", "Hello!", ""),
        (f"<think>{HI}</think>Hello</think>!", "Hello!", HI),
    ],
)
def test_reasoning_between_tags_is_no_part_of_the_answer(
    text: str, answer: str, thoughts: str, chars: int
) -> None:
    tags, shown, shown_thoughts = read(text, chars)
    assert (tags.text, tags.thoughts) == (answer, thoughts)
    assert (shown.strip(), shown_thoughts.strip()) == (answer, thoughts)


@pytest.mark.parametrize("chars", [1, 7, 1000])
def test_a_closing_tag_alone_ends_what_the_template_began(chars: int) -> None:
    tags, shown, _ = read(f"{HI}\n</think>\n\nHello!", chars)
    assert (tags.text, tags.thoughts, tags.ends_alone) == ("Hello!", HI, True)
    assert shown.endswith("Hello!")


@pytest.mark.parametrize("chars", [1, 7, 1000])
@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        (f"{HI}\n</think>\n\nHello!", "Hello!", HI),
        (f"<think>{HI}</think>Hello!", "Hello!", HI),
        ("Hello! a < b [", "Hello! a < b [", ""),
    ],
)
def test_what_the_template_begins_is_shown_as_reasoning_from_then_on(
    text: str, answer: str, thoughts: str, chars: int
) -> None:
    tags, shown, shown_thoughts = read(text, chars, begun=True)
    assert (tags.text, tags.thoughts, shown) == (answer, thoughts, answer)
    assert thoughts in shown_thoughts


@pytest.mark.parametrize("chars", [1, 7, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "  a < b and [think",
        "It writes <think> first and </think> last.",
        "`<think>` opens it.\n`</think>` closes it.",
        "```\n<think>\nHm.\n</think>\n```\n",
        'Split at "</think>".',
        "Use </think> to close it.",
        "<thin>soup</thin>",
        "It ends with\n<|end|>\n<|return|>",
        "The report:\n<analysis>\nIt is soup.\n</analysis>",
    ],
)
def test_an_answer_that_speaks_of_tags_stays_as_it_is(text: str, chars: int) -> None:
    tags, shown, thoughts = read(text, chars)
    assert (tags.text, shown, thoughts, tags.found) == (text, text, "", False)
