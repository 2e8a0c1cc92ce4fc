"""`python -m tierproof` is the command line."""

import sys

from tierproof._entry import main

sys.exit(main())
