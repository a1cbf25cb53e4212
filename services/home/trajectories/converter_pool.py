"""Converts trajectories in several processes side by side."""

import signal
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue

from services.errors import Unavailable
from services.home.trajectories.converter import Conversion, Line, Outcome, convert
from services.home.trajectories.trajectory import Trajectory


class ConverterPool:
    """Processes that convert; they end with this one, or when they have converted what they have.

    Not a ProcessPoolExecutor: before Python 3.11.5 it waits forever if one of them is killed.
    """

    def __init__(self, conversion: Conversion, size: int) -> None:
        self._idle = SimpleQueue[Connection]()
        self._threads = ThreadPoolExecutor(size)
        context = get_context("spawn")  # not forked, as threads of this process may hold locks
        self._processes: list[BaseProcess] = []
        for _ in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, conversion), daemon=True)
            with _interrupts_blocked():  # the process inherits it
                process.start()
            theirs.close()
            self._processes.append(process)
            self._idle.put(ours)

    def __enter__(self) -> "ConverterPool":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()  # SIGTERM may be ignored
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.join()
            self._idle.get().close()

    def submit(self, sources: Sequence[Line | Trajectory]) -> Future[Sequence[Outcome]]:
        """Convert; the future raises what Converter raises, or Unavailable."""
        return self._threads.submit(self._convert, sources)

    def _convert(self, sources: Sequence[Line | Trajectory]) -> Sequence[Outcome]:
        connection = self._idle.get()
        try:
            connection.send(sources)
            outcomes: Sequence[Outcome] | Exception = connection.recv()
        except (EOFError, OSError):
            why = "a process that converts was killed, perhaps because memory ran out"
            raise Unavailable(why) from None
        finally:
            self._idle.put(connection)
        if isinstance(outcomes, Exception):
            raise outcomes
        return outcomes


def _serve(connection: Connection, conversion: Conversion) -> None:
    with suppress(EOFError, ConnectionError):  # the other process has ended
        while True:
            connection.send(_attempt(conversion, connection.recv()))


def _attempt(
    conversion: Conversion, sources: Sequence[Line | Trajectory]
) -> Sequence[Outcome] | Exception:
    try:
        return convert(conversion, sources)
    except Exception as error:  # noqa: BLE001 - raised where the result is wanted
        return error


@contextmanager
def _interrupts_blocked() -> Generator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
