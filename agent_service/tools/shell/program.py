"""Runs the model's program inside the sandbox and lets it call tools.

It needs only Python 3.8. Calls leave as lines of JSON on standard error, and answers arrive on
standard input, so this works on every backend without a network. The program itself gets neither:
its input is empty, and its errors go to a file that is shown if it fails.
"""

ERRORS_CHARS = 4000

PROGRAM = """\
import sys
here = sys.path.pop(0) if sys.path and sys.path[0] == "" else None
import builtins, json, linecache, os, tempfile, threading, traceback, types
if here is not None:
    sys.path.insert(0, here)
answers, calls = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(2), "wb")
errors = tempfile.TemporaryFile()
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(errors.fileno(), 2)
sys.stdout.reconfigure(line_buffering=True)
lock, owner, made = threading.Lock(), os.getpid(), [0]


def tell(message):
    calls.write(json.dumps(message).encode() + b"\\n")
    calls.flush()


def ask(message):
    tell(message)
    line = answers.readline()
    if not line.endswith(b"\\n"):
        raise SystemExit("the tools no longer answer")
    return json.loads(line)


class ToolError(Exception):
    pass


class Result(str):
    exit_code = None


def function(name, parameters):
    def call(*args, **kwargs):
        if os.getpid() != owner:
            raise ToolError("only the process that the program started in can call tools")
        if len(args) > len(parameters):
            raise TypeError("%s takes at most %d arguments" % (name, len(parameters)))
        given = dict(zip(parameters, args))
        twice = sorted(set(given) & set(kwargs))
        if twice:
            raise TypeError("%s was given %s twice" % (name, ", ".join(twice)))
        given.update(kwargs)
        arguments = json.dumps(given)
        with lock:
            made[0] += 1
            answer = ask({"call": made[0], "name": name, "arguments": arguments})
        if answer["is_error"] and answer["exit_code"] is None:
            raise ToolError(answer["text"])
        result = Result(answer["text"])
        result.exit_code = answer["exit_code"]
        return result

    call.__name__ = call.__qualname__ = name
    return call


begun = ask({"ready": True})
module = types.ModuleType("hermes_tools")
module.ToolError, module.Result = ToolError, Result
for name, parameters in begun["functions"].items():
    setattr(module, name, function(name, parameters))
sys.modules["hermes_tools"] = module
code, status = begun["code"], 0
linecache.cache["<program>"] = (len(code), None, code.splitlines(True), "<program>")
main = types.ModuleType("__main__")
main.__builtins__ = builtins
sys.modules["__main__"] = main
try:
    exec(compile(code, "<program>", "exec"), main.__dict__)
except SystemExit as error:
    status = error.code if isinstance(error.code, int) else int(error.code is not None)
    if error.code is not None and not isinstance(error.code, int):
        print(error.code, file=sys.stderr)
except BaseException as error:
    status = 1
    traceback.print_exception(type(error), error, error.__traceback__.tb_next)
sys.stderr.flush()
if status:
    size = errors.seek(0, 2)
    errors.seek(max(size - 4000, 0))
    tell({"errors": errors.read(4000).decode(errors="replace")})
sys.exit(status)
"""
