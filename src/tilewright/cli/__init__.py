"""The command line, with one short module for each command. Large packages are imported only when a
command runs.
"""

from time import monotonic

STARTED = monotonic()
"""When this package was loaded, which is the first work of the command `tilewright`."""
