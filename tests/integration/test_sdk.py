"""The provider SDK is imported without its types, and has them all the same."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys
from agent_service.models.wires.transport import types_deferred
with types_deferred():
    import openai
client = openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9/v1")
known = ("openai.types.responses.response", "openai.types.shared.reasoning")
imported = [name for name in known if name in sys.modules]
calls = [client.chat.completions.create.__name__, client.responses.create.__name__]
from openai.types import Batch
from openai.types.shared import Reasoning
types = [openai.types.responses.Response.__name__, Batch.__name__, Reasoning.__name__]
nonsense = hasattr(openai.types, "Nonsense")
finders = [finder for finder in sys.meta_path if "sdk" in repr(finder)]
print(json.dumps([imported, calls, types, nonsense, finders]))
"""


def test_types_are_imported_when_somebody_asks_for_them() -> None:
    run = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    imported, calls, types, nonsense, finders = json.loads(done.stdout)
    assert imported == []
    assert calls == ["create", "create"]
    assert types == ["Response", "Batch", "Reasoning"]
    assert (nonsense, finders) == (False, [])
