"""The hooks of a job class: how its state is saved and restored, and how far it is; never pickle, never a stack."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from jobledger.adapters.worker.places import allows_none, meaning, members, mistake
from jobledger.adapters.worker.storable import dump, load, plain
from jobledger.domain.answers import Progress
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.values import Json

Method = TypeVar("Method", bound=Callable[..., Any])

CHECKPOINT: Final = "checkpoint"
RESTORE: Final = "restore"
PROGRESS: Final = "progress"
_MARK: Final = "__jobledger_hook__"


def checkpoint(method: Method) -> Method:
    """Mark the method that answers the state to save; its annotated return type says how the state is stored.

    Raises:
        InvalidHookError: it stands on something else than a plain method.
    """
    return _marked(method, CHECKPOINT)


def restore(method: Method) -> Method:
    """Mark the method that is given the saved state before ``run``; ``None`` on a fresh run, where its type allows it.

    Raises:
        InvalidHookError: it stands on something else than a plain method.
    """
    return _marked(method, RESTORE)


def progress(method: Method) -> Method:
    """Mark the method that answers a ``Progress`` or a number; it is asked at each boundary and at the end.

    Raises:
        InvalidHookError: it stands on something else than a plain method.
    """
    return _marked(method, PROGRESS)


def _marked(method: Method, hook: str) -> Method:
    function: object = method
    if not inspect.isfunction(function):
        raise mistake(method, f"@{hook} stands on a {type(method).__name__}; put it right above a method's def")
    if not is_plain(method):
        raise mistake(method, f"the {hook} hook is async or a generator; make it a plain method")
    setattr(method, _MARK, hook)
    return method


def is_plain(function: Callable[..., Any]) -> bool:
    """Whether calling it runs it: no coroutine, no generator."""
    return not (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of one class: names of its methods, and the type of its state."""

    save: str | None = None
    load: str | None = None
    report: str | None = None
    state: TypeAdapter[Any] | None = None
    resets: bool = False
    """Whether the restore hook is called with ``None`` on a fresh run."""

    @property
    def has_pair(self) -> bool:
        """Whether state is saved and restored."""
        return self.save is not None


def hooks_of(job: type, names: Mapping[str, Any]) -> Hooks:
    """Find and check the hooks of a class, its bases included; ``names`` are the local ones where it was defined.

    Raises:
        InvalidHookError: their shapes do not fit.
        NameError: an annotation names something that is not defined (yet).
    """
    found: dict[str, Any] = {}
    for hook, method in _marked_methods(job):
        if hook in found:
            first = found[hook].__name__
            raise mistake(method, f"{first!r} is a {hook} hook already; a class has one: remove one mark", owner=job)
        found[hook] = method
    save, load_, report = found.get(CHECKPOINT), found.get(RESTORE), found.get(PROGRESS)
    if report is not None:
        _require_report(job, report, names)
    if save is None and load_ is None:
        return Hooks(report=report and report.__name__)
    if save is None or load_ is None:
        lonely, missing = (save, RESTORE) if save is not None else (load_, CHECKPOINT)
        raise mistake(
            lonely, f"there is no {missing} hook that goes with it; mark the method with @{missing}", owner=job
        )
    kind, resets = _state_type(job, save, load_, names)
    return Hooks(save.__name__, load_.__name__, report and report.__name__, _storable(job, save, kind), resets)


def _marked_methods(job: type) -> Iterator[tuple[str, Any]]:
    """The hooks in effect: for each name the nearest definition; one that hides a hook must be marked itself."""
    for name in dict.fromkeys(name for base in job.__mro__ for name in vars(base)):
        definitions = [vars(base)[name] for base in job.__mro__ if name in vars(base)]
        marks = [getattr(each, _MARK, None) for each in definitions]
        if marks[0] is not None:
            if definitions[0].__name__ != name:
                raise mistake(definitions[0], f"this hook is also bound to {name!r}; a hook has one name", owner=job)
            yield marks[0], definitions[0]
        elif hidden := next((mark for mark in marks if mark), None):
            raise mistake(
                definitions[0],
                f"it hides the {hidden} hook of a base class; mark it with @{hidden}, or rename it",
                owner=job,
            )


def _state_type(job: type, save: Any, load_: Any, names: Mapping[str, Any]) -> tuple[Any, bool]:
    """The type that both hooks speak of, and whether a fresh run resets."""
    _require_arguments(job, save, 0)
    _require_arguments(job, load_, 1)
    saved = inspect.signature(save).return_annotation
    parameter = list(inspect.signature(load_).parameters.values())[1]
    if saved is inspect.Signature.empty:
        raise mistake(save, "its return type is not annotated; say what it saves: -> int", owner=job)
    if parameter.annotation is inspect.Parameter.empty:
        raise mistake(
            load_, f"{parameter.name!r} is not annotated; give it the type that {save.__name__!r} saves", owner=job
        )
    kind, restored = meaning(saved, save, names), meaning(parameter.annotation, load_, names)
    if kind is type(None):
        raise mistake(save, "it saves nothing; annotate the type of the state that it answers", owner=job)
    missing = [each for each in members(kind) if each not in members(restored)]
    added = [each for each in members(restored) if each not in members(kind) and each is not type(None)]
    if missing or added:
        problem = f"it takes {shown(restored)}, but {save.__name__!r} saves {shown(kind)}"
        raise mistake(load_, f"{problem}; name one type in both (here | None may be added)", owner=job)
    return kind, allows_none(restored)


def _require_arguments(job: type, method: Any, count: int) -> None:
    required = list(inspect.signature(method).parameters.values())[1:]
    is_positional = all(each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for each in required)
    if len(required) != count or not is_positional:
        wanted = "the saved state and nothing else" if count else "nothing but self"
        raise mistake(method, f"this hook takes {wanted}; mend its parameters", owner=job)


def _storable(job: type, save: Any, kind: Any) -> TypeAdapter[Any]:
    try:
        adapter = TypeAdapter(kind)
        adapter.json_schema(mode="serialization")
    except (PydanticUserError, TypeError) as error:
        problem = str(error).splitlines()[0]
        raise mistake(
            save,
            f"{shown(kind)} cannot be stored as JSON ({problem}); save plain values, models or dataclasses",
            owner=job,
        ) from None
    return adapter


def _require_report(job: type, report: Any, names: Mapping[str, Any]) -> None:
    _require_arguments(job, report, 0)
    annotation = inspect.signature(report).return_annotation
    if annotation is inspect.Signature.empty:
        return
    kind = meaning(annotation, report, names)
    if any(each not in (Progress, int, float, Any) for each in members(kind)):
        raise mistake(report, f"it answers {shown(kind)}; a progress hook answers a Progress or a number", owner=job)


def shown(kind: Any) -> str:
    """A type as a reader would write it."""
    return (
        kind.__name__
        if isinstance(kind, type) and not getattr(kind, "__args__", None)
        else str(kind).replace("typing.", "")
    )


class BoundHooks:
    """The hooks of one handler instance; a function's (``instance`` is ``None``) have none of the three."""

    def __init__(self, hooks: Hooks, instance: Any = None) -> None:
        """Speak for this instance."""
        self._hooks, self._instance = hooks, instance

    def saved(self, state: Any) -> Json:
        """The state to store: the given one, or (``None``) what the checkpoint hook answers.

        Raises:
            InvalidRequestError: none was given, and there is no hook.
            UnstorableValueError: it cannot be stored as the type of the hook.
        """
        if self._hooks.save is None or self._hooks.state is None:
            if state is None:
                raise InvalidRequestError(
                    "checkpoint.state", "give the state to save, or mark a method with @checkpoint"
                )
            return plain("checkpoint", state)
        value = getattr(self._instance, self._hooks.save)() if state is None else state
        return dump("checkpoint", self._hooks.state, value)

    def start(self, stored: Json, *, is_fresh: bool) -> None:
        """Restore the saved state, or reset on a fresh run.

        Raises:
            pydantic.ValidationError: what is stored does not fit the type.
        """
        if self._hooks.load is None or self._hooks.state is None:
            return
        hook = getattr(self._instance, self._hooks.load)
        if not is_fresh:
            hook(load(self._hooks.state, stored))
        elif self._hooks.resets:
            hook(None)

    @property
    def reports(self) -> bool:
        """Whether there is a progress hook."""
        return self._hooks.report is not None

    def reported(self) -> Progress | None:
        """What the progress hook answers; ``None`` where there is no hook.

        Raises:
            InvalidRequestError: neither a ``Progress`` nor a number.
        """
        if self._hooks.report is None:
            return None
        said = getattr(self._instance, self._hooks.report)()
        if isinstance(said, Progress):
            return said
        if type(said) in (int, float):
            return Progress(said)
        raise InvalidRequestError("progress", f"the hook answers a Progress or a number, not {type(said).__name__}")
