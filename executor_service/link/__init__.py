"""The executor's end of the channel to a box's supervisor.

`async with open_link(stream, hello, adopt) as link` speaks over a backend's byte stream: it starts
commands, hands their output to sinks as it comes, and works on files. The link ends when the
stream does (LinkClosed) or when the supervisor breaks the protocol (BoxPoisoned); commands go on
in the box, and a new link resumes their output by offset.
"""
