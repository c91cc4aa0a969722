"""Registering handlers: ``@durable_job`` says which kind of job a class or function runs, and checks its shape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, get_args

from jobledger.adapters.worker.hooks import BoundHooks, Hooks, hooks_of
from jobledger.adapters.worker.mutation import require_no_lost_state
from jobledger.adapters.worker.parameters import Parameters, parameters_of
from jobledger.adapters.worker.places import mistake, place_in_module
from jobledger.domain.bounds import require_text
from jobledger.domain.decisions.creating import CONTROLS
from jobledger.domain.errors import InvalidError
from jobledger.domain.policies import DEFAULT

Target = TypeVar("Target", bound=Callable[..., Any])

ExecutorName = Literal["thread", "process"]
"""Where a handler runs: in a thread of its host (an async one on its loop), or in a child process."""

_DECLARATION: Final = "__jobledger_job__"


@dataclass(frozen=True, slots=True)
class DurableJob:
    """A handler whose shape was checked: its kind, what its jobs are created with, and how it is called."""

    kind: str
    policy: str
    controls: tuple[str, ...]
    target: Any
    is_async: bool
    parameters: Parameters
    hooks: Hooks
    executor: ExecutorName
    factory: Callable[[], Any] | None = None

    def instance(self) -> tuple[Callable[..., Any], BoundHooks]:
        """A fresh handler: what to call, and its hooks.

        Raises:
            TypeError: the factory made something else.
        """
        if not isinstance(self.target, type):
            return self.target, BoundHooks(self.hooks)
        made: Any = self.target() if self.factory is None else self.factory()
        if isinstance(made, self.target):
            handler: Any = made
            return handler.run, BoundHooks(self.hooks, handler)
        msg = f"the factory of {self.target.__name__} made a {type(made).__name__}"
        raise TypeError(msg)


@dataclass(slots=True)
class _Declaration:
    """What a decorator said; ``names`` are the local ones where it stood, kept until every annotation is understood."""

    kind: str
    policy: str
    controls: tuple[str, ...]
    target: Any
    names: Mapping[str, Any]
    executor: ExecutorName = "thread"
    factory: Callable[[], Any] | None = None
    checked: DurableJob | None = None

    def check(self) -> DurableJob:
        """The handler's shape.

        Raises:
            InvalidHookError: it is mistaken.
            NameError: an annotation names something that is not defined (yet).
        """
        if self.checked is None:
            self.checked = _checked(self)
            self.names = {}
        return self.checked


def durable_job(
    kind: str,
    *,
    policy: str = DEFAULT,
    controls: tuple[str, ...] = CONTROLS,
    executor: ExecutorName = "thread",
    factory: Callable[[], Any] | None = None,
) -> Callable[[Target], Target]:
    """Register a class or a function as the handler of one kind of job.

    A class has ``run``, is made anew for each attempt, and keeps what it must not lose through its ``@checkpoint`` and
    ``@restore`` hooks. A function saves with ``job.checkpoint(state)`` and starts from ``job.state``. Either may be
    async, takes the ``JobContext`` first or not at all, and the payload's fields by name.

    Args:
        kind: the name under which jobs are created for it.
        policy: the policy that a host's producers create its jobs with.
        controls: those that operators may use on such jobs: pause, cancel, retry.
        executor: ``process`` for handlers that compute: each runs in a child process, which finds the handler by its
            name in its module. A crash of that process is a failed attempt.
        factory: makes the instance of a class for each attempt, called without arguments: the place to hand in what the
            handler needs, as a connection pool. ``None``: the class is called so itself.

    Raises:
        InvalidHookError: the shape is mistaken; what cannot be seen yet is checked by ``JobHost``.
    """
    frame = inspect.currentframe()
    names = frame.f_back.f_locals if frame and frame.f_back else {}  # annotations may name what only the caller knows

    def register(target: Target) -> Target:
        given: object = target
        if not (inspect.isclass(given) or inspect.isfunction(given)):
            raise mistake(target, f"@durable_job stands on a {type(target).__name__}; put it on a class or a function")
        _require_arguments(target, kind, policy, controls, executor)
        _require_factory(target, factory)
        declaration = _Declaration(kind, policy, tuple(controls), target, dict(names), executor, factory)
        with suppress(NameError):  # the name may be defined further down in the module; the host looks again
            declaration.check()
        setattr(target, _DECLARATION, declaration)
        return target

    if callable(kind):
        raise mistake(kind, "@durable_job needs the kind of its jobs; write @durable_job('rebuild')")
    return register


def is_registered(target: Any) -> bool:
    """Whether this very class or function was registered with ``@durable_job`` (a subclass of one was not)."""
    return hasattr(target, "__dict__") and _DECLARATION in vars(target)


def registered(target: Any) -> DurableJob:
    """The checked handler that a class or function was registered as.

    Raises:
        InvalidHookError: it was not registered, or its shape is mistaken.
    """
    if not is_registered(target):
        raise mistake(target, "it is no durable job; register it with @durable_job(kind)")
    declaration: _Declaration = vars(target)[_DECLARATION]
    try:
        return declaration.check()
    except NameError as error:
        raise mistake(target, f"an annotation cannot be understood: {error}; import or define the name") from None


def _require_arguments(target: Any, kind: Any, policy: Any, controls: Any, executor: Any) -> None:
    try:
        require_text("kind", kind)
        require_text("policy", policy)
    except InvalidError as error:
        raise mistake(target, f"@durable_job: {error}") from None
    if not isinstance(controls, list | tuple) or any(each not in CONTROLS for each in controls):
        raise mistake(target, f"@durable_job: controls are a tuple of {', '.join(CONTROLS)}, not {controls!r}")
    if len(set(controls)) < len(controls):
        raise mistake(target, f"@durable_job: a control is named twice in {controls!r}; name each once")
    if executor not in get_args(ExecutorName):
        raise mistake(target, f"@durable_job: executor is 'thread' or 'process', not {executor!r}")
    if executor == "process":
        place_in_module(target)


def _require_factory(target: Any, factory: Any) -> None:
    if factory is None:
        return
    if not isinstance(target, type):
        raise mistake(target, "@durable_job: a factory makes instances of a class; a function needs none: remove it")
    try:
        with suppress(ValueError):  # some of Python's own types do not say what they take
            inspect.signature(factory).bind()
    except TypeError as error:
        problem = f"the factory cannot be called without arguments ({error})"
        raise mistake(target, f"@durable_job: {problem}; bind them, as with a lambda or functools.partial") from None


def _checked(declared: _Declaration) -> DurableJob:
    target, names = declared.target, declared.names
    is_class = isinstance(target, type)
    function = _run_of(target) if is_class else target
    owner = target if is_class else None
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise mistake(
            function, "a handler cannot be a generator; return the result, and save with checkpoint()", owner=owner
        )
    is_async = inspect.iscoroutinefunction(function)
    hooks = hooks_of(target, names) if is_class else Hooks()
    parameters = parameters_of(function, names, owner=owner, is_async=is_async)
    if is_class:
        if declared.factory is None:
            _require_constructible(target)
        if not hooks.has_pair:
            require_no_lost_state(target)
    return DurableJob(
        kind=declared.kind,
        policy=declared.policy,
        controls=declared.controls,
        target=target,
        is_async=is_async,
        parameters=parameters,
        hooks=hooks,
        executor=declared.executor,
        factory=declared.factory,
    )


def _run_of(job: type) -> Any:
    run = inspect.getattr_static(job, "run", None)
    if run is None:
        raise mistake(job, "a durable job class needs a method 'run'; define run(self, job: JobContext, …)")
    if not inspect.isfunction(run):
        raise mistake(job, f"'run' is a {type(run).__name__}; make it a plain method: run(self, job: JobContext, …)")
    if not inspect.signature(run).parameters:
        raise mistake(run, "'run' does not take self; make it a plain method", owner=job)
    return run


def _require_constructible(job: type) -> None:
    """The host makes a fresh instance for each attempt, and has no arguments to give."""
    if inspect.isabstract(job):
        names = ", ".join(sorted(getattr(job, "__abstractmethods__", ())))
        raise mistake(job, f"it is abstract ({names}); define these methods")
    try:
        inspect.signature(job).bind()
    except TypeError as error:
        raise mistake(
            job, f"it cannot be made without arguments ({error}); give its parameters defaults, or name a factory"
        ) from None
    except ValueError:
        return
