"""The executor's end of the channel to a box's supervisor.

`async with open_link(stream, hello, adopt) as link` starts commands, passes their output to sinks
and works on files, over a backend's byte stream. The link ends with the stream (LinkClosed) or when
the supervisor breaks the protocol (BoxPoisoned). Commands continue in the box; a new link resumes
their output by offset.
"""
