"""The executor's end of the channel to a box's supervisor.

`async with open_link(stream, hello, adopt) as link` speaks over a backend's byte stream: it starts
commands, hands their output to sinks as it comes, and works on files. The link ends when the
stream does (LinkClosed) or when the supervisor breaks the protocol (BoxPoisoned); commands go on
in the box, and a new link resumes their output by offset.
"""

from executor_service.link.command import CommandSink, RemoteCommand
from executor_service.link.files import Download, RemoteFiles, Upload
from executor_service.link.link import Hello, SupervisorLink, open_link
from executor_service.link.messages import (
    CommandState,
    DirectoryEntry,
    DirectoryPage,
    FileInfo,
    StartCommand,
    TerminalSize,
    Usage,
)
from executor_service.link.socket_stream import SocketStream
from executor_service.link.streams import BoxStream, RemoteStreams
from executor_service.records import Exit

__all__ = [
    "BoxStream",
    "CommandSink",
    "CommandState",
    "DirectoryEntry",
    "DirectoryPage",
    "Download",
    "Exit",
    "FileInfo",
    "Hello",
    "RemoteCommand",
    "RemoteFiles",
    "RemoteStreams",
    "SocketStream",
    "StartCommand",
    "SupervisorLink",
    "TerminalSize",
    "Upload",
    "Usage",
    "open_link",
]
