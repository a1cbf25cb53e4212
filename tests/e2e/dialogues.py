"""The dialogues of the documentation: what a person says, what the model calls and what it answers.

`python -m tests.e2e.dialogue_stage` performs them and writes them into their pages.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tests.e2e.model import Json, calls, rule, tool_call


class Dialogue(Struct, frozen=True):
    """One dialogue; `proof` is what a result of its calls must say for the answer to be true."""

    tool: str
    said: str
    steps: Sequence[Json]
    answer: str
    proof: str
    choice: str = ""
    """What the person answers to a question."""


def _one(tool: str, said: str, answer: str, proof: str, /, **arguments: Any) -> Dialogue:
    return Dialogue(tool, said, (calls({"name": tool, "arguments": arguments}),), answer, proof)


PROGRAM = """\
from hermes_tools import read_file
counts = [read_file(name).count("otter") for name in ("a.csv", "b.csv")]
print(*counts)"""
DIALOGUES = (
    _one(
        "terminal",
        "How many lines do the CSV files have?",
        "Five: a.csv has three and b.csv has two.",
        "5 total",
        command="wc -l *.csv",
    ),
    Dialogue(
        "process",
        "Follow notes.txt in the background. Does it run?",
        (
            calls(tool_call("terminal", command="tail -f notes.txt", background=True)),
            calls(tool_call("process", action="list")),
        ),
        "Yes, it runs.",
        ": running",
    ),
    _one("read_file", "What do I have to buy?", "Milk and tea.", "- milk", path="notes.txt"),
    _one(
        "write_file",
        "Write a shopping list: bread and salt.",
        "The list is in list.txt.",
        "list.txt",
        path="list.txt",
        content="bread\nsalt\n",
    ),
    _one(
        "patch",
        "The greeting in hello.py should be in French.",
        "hello.py now says “Bonjour”.",
        "Bonjour",
        mode="replace",
        path="hello.py",
        old_string="Hello",
        new_string="Bonjour",
    ),
    _one(
        "search_files",
        "Which files mention otters?",
        "a.csv and b.csv.",
        "b.csv",
        pattern="otter",
        output_mode="files_only",
    ),
    _one("list_directory", "What is in this folder?", "Two tables, notes and a program.", "a.csv"),
    _one(
        "todo",
        "Plan the release.",
        "I begin with the tests.",
        "Run the tests",
        todos=[
            {"id": "1", "content": "Run the tests", "status": "in_progress"},
            {"id": "2", "content": "Write the changelog", "status": "pending"},
        ],
    ),
    Dialogue(
        "clarify",
        "Delete the old table.",
        (calls(tool_call("clarify", question="Which is old?", choices=["a.csv", "b.csv"])),),
        "I will delete b.csv.",
        "b.csv",
        choice="2",
    ),
    _one(
        "memory",
        "I am a vegetarian. Keep that in mind.",
        "I will remember it.",
        "",
        action="add",
        target="user",
        content="The user is a vegetarian.",
    ),
    _one(
        "session_search", "What did we name the boat?", "You named it Otter.", "Otter", query="boat"
    ),
    _one(
        "rl_list_environments",
        "Which environments can I run?",
        "terminal_test_env, and hermes_swe_env once it has tasks.",
        "terminal_test_env",
    ),
    _one("skills_list", "Which skills do you have?", "One: meeting-notes.", "meeting-notes"),
    _one(
        "skill_view",
        "How do you write meeting notes?",
        "By my skill for them.",
        "meeting-notes",
        name="meeting-notes",
    ),
    _one(
        "skill_manage",
        "From now on, begin release notes with what breaks.",
        "I made a skill of it.",
        "release-notes",
        action="create",
        name="release-notes",
        content="---\nname: release-notes\ndescription: Write release notes.\n---\n"
        "Begin with what breaks.\n",
    ),
    _one(
        "mixture_of_agents",
        "Is 91 a prime? Ask all models.",
        "No: 91 is 7 times 13, they agree.",
        "7 times 13",
        prompt="Is 91 prime? Give the factors.",
    ),
    _one(
        "cronjob",
        "Remind me every weekday at 9 to stretch.",
        "I will, from the next weekday on.",
        "stretch",
        action="create",
        name="stretch",
        schedule="every weekday at 9:00",
        prompt="Tell the user to stretch.",
    ),
    _one(
        "send_message",
        "Tell my family that I am late.",
        "They know.",
        "",
        target="telegram",
        message="I am late.",
    ),
    _one(
        "honcho_conclude",
        "Tell Honcho that I like strong tea.",
        "It knows now.",
        "",
        conclusion="The user likes strong tea.",
    ),
    _one("honcho_search", "Which tea do I like?", "Strong tea.", "strong tea", query="tea"),
    _one(
        "honcho_context",
        "Which tea should I order?",
        "An Assam would suit you.",
        "strong black tea",
        query="What tea does the user like?",
    ),
    _one(
        "delegate_task",
        "How many seconds has a week? Let a subagent count.",
        "A week has 604,800 seconds.",
        "604,800",
        goal="Work out the seconds of a week.",
    ),
    _one(
        "execute_code",
        "How many otters are in each table?",
        "Two in a.csv, and one in b.csv.",
        "2 1",
        code=PROGRAM,
    ),
    _one(
        "web_search",
        "Where can I read about sea otters?",
        "The Otter Society has a page about them.",
        "The Otter Society",
        query="sea otters",
    ),
    _one(
        "web_extract",
        "What do sea otters eat? See http://otters.example/",
        "Sea urchins and clams, the page says.",
        "sea urchins and clams",
        urls=["http://otters.example/"],
    ),
    _one(
        "vision_analyze",
        "Look at sign.png.",
        "It is a plain red sign.",
        "a red square",
        image="sign.png",
        question="What does the picture show?",
    ),
    _one(
        "transcribe_audio",
        "What did I record in memo.ogg?",
        "“The garden is yellow again.”",
        "the garden is yellow again",
        audio="memo.ogg",
    ),
    _one(
        "text_to_speech", "Say good night to Ada.", "Here it is.", "media/", text="Good night, Ada!"
    ),
    _one(
        "image_generate",
        "Draw an otter with a crown.",
        "Here he is.",
        "media/",
        prompt="An otter with a crown, in ink",
        aspect_ratio="square",
    ),
    _one(
        "ha_list_entities",
        "Is a window open?",
        "Yes, the one in the kitchen.",
        "Kitchen window: on",
        domain="binary_sensor",
    ),
    _one(
        "ha_get_state",
        "How warm is the bedroom?",
        "19.5 °C, and it heats up to 21.",
        '"current_temperature": 19.5',
        entity_id="Bedroom",
    ),
    _one(
        "ha_list_services",
        "Can you dim the lights?",
        "Yes, by their brightness in percent.",
        "brightness_pct",
        domain="light",
    ),
    Dialogue(
        "ha_call_service",
        "Lock the front door.",
        (
            calls(
                tool_call(
                    "ha_call_service", domain="lock", service="lock", entity_id="lock.front_door"
                )
            ),
        ),
        "It is locked.",
        "lock.front_door",
        choice="y",
    ),
)
"""In the order in which they are performed: what reads from the web is last, as it taints."""
OTHERS = (
    rule("We call the boat Otter", {"text": "A good name."}),
    rule("What does the picture show", {"text": "The picture shows a red square."}),
    rule("Give the factors", {"text": "No, it is 7 times 13."}),
    rule("Work out the seconds", {"text": "604,800"}),
)
"""What is asked of models beside the dialogues."""
PREPARE = """\
printf 'animal,count\\notter,2\\notter,1\\n' >a.csv
printf 'animal,count\\notter,3\\n' >b.csv
printf 'Buy:\\n- milk\\n- tea\\n' >notes.txt
echo 'print("Hello")' >hello.py
echo {sign} | base64 -d >sign.png
echo {memo} | base64 -d >memo.ogg"""
"""Makes the files that the dialogues are about."""
