"""The provider SDK is imported without its types, and has them all the same."""

import subprocess
import sys

IMPORT = """
import sys
from agent_service.models.transport import types_deferred
with types_deferred():
    import openai
client = openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9/v1")
"""


def run(program: str) -> str:
    """Return what a program prints that has just imported the SDK."""
    result = subprocess.run(
        [sys.executable, "-c", IMPORT + program], check=True, capture_output=True, text=True
    )
    return result.stdout.strip()


def test_the_types_of_responses_are_not_imported() -> None:
    assert run("print('openai.types.responses.response' in sys.modules)") == "False"
    assert run("print('openai.types.shared.reasoning' in sys.modules)") == "False"


def test_a_type_is_there_for_whoever_asks() -> None:
    assert run("print(openai.types.responses.Response.__name__)") == "Response"
    assert run("from openai.types import Batch; print(Batch.__name__)") == "Batch"
    assert run("from openai.types.shared import Reasoning; print(Reasoning.__name__)") == (
        "Reasoning"
    )


def test_a_name_that_the_types_do_not_have_is_missing() -> None:
    assert run("print(hasattr(openai.types, 'Nonsense'))") == "False"


def test_the_typed_calls_are_there() -> None:
    create = "client.chat.completions.create.__name__, client.responses.create.__name__"
    assert run(f"print({create})") == "create create"


def test_other_imports_are_found_as_ever_afterwards() -> None:
    assert run("print([finder for finder in sys.meta_path if 'sdk' in repr(finder)])") == "[]"
