"""Runs the supervisor: `python3 supervisor.pyz`."""

import sys

from executor_service.supervisor.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
