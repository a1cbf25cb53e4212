"""Runs a command many times and says how often it fails, and how."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

USAGE = """\
examples:
  repeat.py --times 50 -- python3 -m unittest tests.test_cache
  repeat.py --times 200 --stop --keep failure.txt -- ./flaky.sh
"""


def run_once(command: list[str], timeout_s: float) -> tuple[str, bytes]:
    """How the command ended, as a word, and all of its output."""
    try:
        done = subprocess.run(
            command,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return "timeout", error.stdout or b""
    code = done.returncode
    return (f"signal {-code}" if code < 0 else f"exit {code}"), done.stdout


def main() -> int:
    """The exit code is 0 when no run failed, 1 when some did."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20, help="runs (default 20)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a run (default 60)")
    parser.add_argument("--stop", action="store_true", help="end at the first failure")
    parser.add_argument("--keep", type=Path, help="file for the output of the first failure")
    parser.add_argument("command", nargs="+", help="what to run, after --")
    options = parser.parse_args()
    if options.times < 1 or options.timeout <= 0:
        parser.error("--times and --timeout are more than 0")
    ends: Counter[str] = Counter()
    longest_s = 0.0
    for number in range(1, options.times + 1):
        began = time.monotonic()
        try:
            end, output = run_once(options.command, options.timeout)
        except OSError as error:
            sys.exit(f"repeat: cannot run {options.command[0]}: {error.strerror}")
        longest_s = max(longest_s, time.monotonic() - began)
        is_first = end != "exit 0" and set(ends) <= {"exit 0"}
        ends[end] += 1
        if is_first:
            print(f"run {number} was the first to fail: {end}")
            if options.keep:
                options.keep.write_bytes(output)
                print(f"its output is in {options.keep}")
        if end != "exit 0" and options.stop:
            break
    runs, failed = sum(ends.values()), sum(ends.values()) - ends["exit 0"]
    print(f"{failed} of {runs} runs failed ({100 * failed / runs:.1f} %), longest {longest_s:.2f} s")
    for end, count in ends.most_common():
        print(f"  {count:5d}  {end}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
