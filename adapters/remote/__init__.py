"""A store over HTTP: the same methods as ``JobStore``, for workers and callers without database credentials."""

from importlib.util import find_spec

if find_spec("httpx") is None:
    msg = "jobledger.RemoteStore needs an extra: pip install 'jobledger[remote]'"
    raise ModuleNotFoundError(msg, name="httpx")

from jobledger.adapters.remote.store import RemoteStore

__all__ = ["RemoteStore"]
