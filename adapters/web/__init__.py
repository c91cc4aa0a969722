"""The web face: the HTTP API, the dashboard, and what monitoring reads, as one ASGI app over a store."""

from jobledger.adapters.web.access import Principal, Scope
from jobledger.adapters.web.app import create_app
from jobledger.adapters.web.settings import WebSettings

__all__ = ["Principal", "Scope", "WebSettings", "create_app"]
