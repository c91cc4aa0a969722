"""Every error a caller can meet; see ``jobledger.domain.errors`` for the families and what to do next."""

from jobledger.domain.errors import *  # noqa: F403  # the face is exactly that module
from jobledger.domain.errors import __all__  # noqa: F401  # as above
