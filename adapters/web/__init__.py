"""The web face: the HTTP API, the dashboard, and what monitoring reads, as one ASGI app over a store."""

from importlib.util import find_spec

if find_spec("fastapi") is None:
    msg = "jobledger's web face needs an extra: pip install 'jobledger[web]'"
    raise ModuleNotFoundError(msg, name="fastapi")

from jobledger.adapters.web.access import Principal, Scope
from jobledger.adapters.web.app import create_app
from jobledger.adapters.web.settings import WebSettings

__all__ = ["Principal", "Scope", "WebSettings", "create_app"]
