"""Runs the supervisor or a bridge to it: `python3 supervisor.pyz`."""

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # imports leave nothing to collect
    # Boxes run this file, because Python needs several modules to run its folder.
    sys.path.insert(0, __file__.rpartition("/")[0])
    if sys.argv[1:2] == ["--bridge"]:
        from executor_service.supervisor.bridge import main
    elif sys.argv[1:2] == ["--keep"]:
        from executor_service.supervisor.keeper import main
    elif sys.argv[1:2] == ["--folders"]:
        from executor_service.supervisor.folders import main
    else:
        from executor_service.supervisor.main import main
    gc.enable()
    sys.exit(main(sys.argv[1:]))
