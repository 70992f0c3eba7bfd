"""`python -m ollm_tui` is `ollm-tui`."""

import os
import sys

if sys.path[0] in ("", os.getcwd()):
    # `-m` looks for modules in the current folder first: a workspace could bring its own `httpx.py`.
    del sys.path[0]

from ollm_tui.cli import main

sys.exit(main())
