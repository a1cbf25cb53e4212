"""What is in memory of an output stream is what came and is not written."""

from hypothesis import given
from hypothesis import strategies as st

from executor_service.execs.spool import StreamBuffer

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 50)),
        st.tuples(st.just("take"), st.just(0)),
        st.tuples(st.just("written"), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS, st.integers(0, 1000), st.integers(0, 200))
def test_it_holds_what_is_not_written(
    steps: list[tuple[str, int]], offset: int, limit: int
) -> None:
    buffer, came, taken = StreamBuffer(0), b"", b""
    for what, amount in steps:
        match what:
            case "append":
                data = bytes((len(came) + i) % 251 for i in range(amount))
                buffer.append(len(came), memoryview(data))
                came += data
            case "take" if buffer.written == len(taken):
                start, data = buffer.take()
                assert start == len(taken)
                taken += data
            case _:
                assert buffer.taken_is_written() <= len(taken)
                assert buffer.written == len(taken)
        assert (buffer.end, buffer.is_waiting) == (len(came), taken != came)
        assert buffer.cut(buffer.written, len(came)) == came[buffer.written :]
        assert came.startswith(taken)
        within = max(buffer.written, min(offset, len(came)))
        assert buffer.cut(within, limit) == came[within : within + limit]
