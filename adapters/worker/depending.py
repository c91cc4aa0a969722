"""What a handler depends on besides its payload: made for each attempt by a provider, and cleaned up at its end."""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Final

from jobledger.adapters.worker.places import meaning, mistake

_YIELDING: Final = (typing.get_origin(Iterator[int]), typing.get_origin(typing.Generator[int, None, None]))


@dataclass(frozen=True, slots=True)
class Depends:
    """Marks a parameter of a handler that a provider fills: ``pool: Annotated[Pool, Depends(make_pool)]``.

    The provider is called without arguments, once for each attempt, however many parameters name it. What a generator
    yields, or a context manager answers, is handed in, and cleaned up when the handler has ended, however it ended.
    """

    provider: Callable[[], Any]


class Provided:
    """What one attempt was given; closed when its handler has ended."""

    __slots__ = ("_stack", "_values")

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._stack = ExitStack()
        self._values: dict[Any, Any] = {}

    def fill(self, needs: Mapping[str, Depends]) -> dict[str, Any]:
        """The values for parameters, each made by its provider; where one raises, the others are cleaned up."""
        try:
            for need in needs.values():
                if need.provider not in self._values:
                    self._values[need.provider] = self._made(need.provider)
        except BaseException as error:
            self.close(error)
            raise
        return {name: self._values[need.provider] for name, need in needs.items()}

    def _made(self, provider: Callable[[], Any]) -> Any:
        make = contextlib.contextmanager(provider) if inspect.isgeneratorfunction(_plain(provider)) else provider
        value = make()
        return self._stack.enter_context(value) if isinstance(value, AbstractContextManager) else value

    def close(self, error: BaseException | None) -> None:
        """Clean up, the last that was made first; each is told how the handler ended, and none can undo that."""
        trace = error.__traceback__ if error is not None else None
        self._stack.__exit__(type(error) if error is not None else None, error, trace)


def need_of(parameter: inspect.Parameter, kind: Any, function: Any, owner: type | None) -> Depends | None:
    """What a parameter depends on, by its annotation; ``None``: it is a field of the payload.

    Raises:
        InvalidHookError: the mark is mistaken: what is wrong with it, and the mend.
    """
    name = parameter.name
    if isinstance(parameter.default, Depends):
        raise mistake(
            function, f"the default of {name!r} is a Depends; mark its type: Annotated[…, Depends(…)]", owner=owner
        )
    marks = [each for each in getattr(kind, "__metadata__", ()) if each is Depends or isinstance(each, Depends)]
    if not marks:
        return None
    if len(marks) > 1 or not isinstance(marks[0], Depends):
        raise mistake(function, f"{name!r} needs one provider; write Annotated[…, Depends(provider)]", owner=owner)
    problem = _problem_of(marks[0].provider)
    if problem is not None:
        raise mistake(function, f"{name!r} depends on {problem}", owner=owner)
    _require_type(parameter, kind.__origin__, marks[0].provider, function, owner)
    return marks[0]


def _problem_of(provider: Any) -> str | None:
    named = getattr(provider, "__name__", repr(provider))
    if not callable(provider):
        return f"{named}, which cannot be called; give Depends a function that makes it, as in Depends(make_it)"
    plain = _plain(provider)
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        return f"{named}, which is async; providers are called in a thread: make it a plain function"
    try:
        with contextlib.suppress(ValueError):  # some of Python's own types do not say what they take
            inspect.signature(provider).bind()
    except TypeError as error:
        return f"{named}, which cannot be called without arguments ({error}); bind them, as with functools.partial"
    return None


def _require_type(parameter: inspect.Parameter, kind: Any, provider: Any, function: Any, owner: type | None) -> None:
    """Require that a provider that says what it makes makes what the parameter takes, as far as classes tell."""
    made = provider if isinstance(provider, type) else _answer_of(provider)
    if isinstance(made, type) and isinstance(kind, type) and not issubclass(made, kind):
        problem = f"{parameter.name!r} is a {kind.__name__}, and its provider makes a {made.__name__}"
        raise mistake(function, f"{problem}; let them agree", owner=owner)


def _answer_of(provider: Any) -> Any:
    """What a provider says that it makes, or yields; ``None`` where it does not say, or not plainly."""
    plain = _plain(provider)
    annotation = getattr(plain, "__annotations__", {}).get("return")
    if annotation is None:
        return None
    try:
        kind = meaning(annotation, plain, {})
    except Exception:  # noqa: BLE001  # an annotation that only type checkers understand is no mistake of the handler's
        return None
    if typing.get_origin(kind) in _YIELDING:
        return typing.get_args(kind)[0]
    return kind if isinstance(kind, type) and not hasattr(kind, "__enter__") else None


def _plain(provider: Any) -> Any:
    """The function behind ``functools.partial``."""
    while hasattr(provider, "func") and hasattr(provider, "args"):
        provider = provider.func
    return provider
