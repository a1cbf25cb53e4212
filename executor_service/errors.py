"""The executor's error tree.

ExecutorError
├── BackendError
│   ├── BackendUnavailable    this machine cannot run the backend; the message says what to do
│   ├── BoxCreateFailed       a box could not be made
│   └── BoxLost               the box is gone: died, was removed, or cannot be reached again
├── LinkClosed                the channel to a box ended; connect again and resume by offset
└── BoxPoisoned               the box's supervisor broke the protocol; only that box is given up
"""


class ExecutorError(Exception):
    """Anything that the executor raises on purpose."""


class BackendError(ExecutorError):
    """A backend could not do what was asked of it."""


class BackendUnavailable(BackendError):
    """The backend cannot run on this machine; the message says what to do about it."""


class BoxCreateFailed(BackendError):
    """The backend is there, but this box could not be made."""


class BoxLost(BackendError):
    """The box no longer exists or can never be reached again."""


class LinkClosed(ExecutorError):
    """The channel to the box's supervisor ended; commands in the box go on."""


class BoxPoisoned(ExecutorError):
    """The box's supervisor broke the protocol, so nothing it says is believed any more."""
