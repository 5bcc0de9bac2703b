"""`python -m causalcast` is the command `causalcast`."""

import sys

from causalcast.cli.main import main

sys.exit(main())
