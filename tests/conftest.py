"""Settings that hold for all tests: how hard the property tests look.

A run tries 100 examples for each property. `JOBLEDGER_EXAMPLES=5000 scripts/test` looks for longer: 5000 for each.
A test leaves `max_examples` alone, or the variable has no power over it.
"""

import os
import signal

import pytest
from hypothesis import settings

# A run that was started in the background ignores Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_EXAMPLES = os.environ.get("JOBLEDGER_EXAMPLES", "")

# Chance stays on, so that each run looks elsewhere. A failure prints the line that repeats it, so no database is needed
# and none is written into the checkout. There is no deadline: a busy machine is no bug.
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=False, database=None)

if _EXAMPLES:
    if not _EXAMPLES.isdecimal() or int(_EXAMPLES) < 1:
        raise pytest.UsageError(f"JOBLEDGER_EXAMPLES is {_EXAMPLES!r}: give a number from 1, or unset it")
    settings.register_profile("long", parent=settings.get_profile("ci"), max_examples=int(_EXAMPLES))

settings.load_profile("long" if _EXAMPLES else "ci")
