"""The process inside a box that starts, feeds, reads and ends commands.

Standard library only, Python 3.8 or newer: it is shipped into boxes as one zip file and runs on
their Python. `executor_service.link` is the other end of its channel.
"""
