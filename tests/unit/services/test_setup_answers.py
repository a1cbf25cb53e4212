"""The lists of `hermes setup`."""

import pytest
from blockbuster import BlockBuster
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from services.cli.admin.setup_answers import Answers


@pytest.mark.parametrize(("typed", "chosen"), [("2", "b"), ("9", "i"), ("10", "j"), ("11", "k")])
def test_each_number_of_a_list_chooses(blockbuster: BlockBuster, typed: str, chosen: str) -> None:
    blockbuster.functions["os.read"].deactivate()  # the library reads the keys on its loop
    options = [(letter, letter.upper()) for letter in "abcdefghijk"]
    with create_pipe_input() as keys, create_app_session(keys, DummyOutput()):
        keys.send_text(f"{typed}\r")
        assert Answers(asks=True).choose("Which?", options, "a") == chosen
