"""`python -m ollm_tui` is `ollm-tui`."""

import sys

from ollm_tui.cli import main

sys.exit(main())
