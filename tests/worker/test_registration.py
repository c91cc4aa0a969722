"""Every wrong shape of a handler is refused before anything is made, by its place in the source and the mend."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker import (
    AsyncJobContext,
    JobContext,
    JobHost,
    checkpoint,
    durable_job,
    progress,
    restore,
)
from jobledger.domain.answers import Progress
from jobledger.domain.errors import InvalidHookError
from tests.worker.hosting import ran

if TYPE_CHECKING:
    from decimal import Decimal as ForTypeCheckersOnly


def one_hook_only() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> int:
            return 1


def restore_alone() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @restore
        def load(self, saved: int) -> None: ...


def two_checkpoints() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> int:
            return 1

        @checkpoint
        def save_too(self) -> int:
            return 2

        @restore
        def load(self, saved: int) -> None: ...


def two_progresses() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @progress
        def done(self) -> int:
            return 1

        @progress
        def done_too(self) -> int:
            return 2


def types_differ() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> int:
            return 1

        @restore
        def load(self, saved: str | None) -> None: ...


def none_is_saved_but_not_taken() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> int | None:
            return 1

        @restore
        def load(self, saved: int) -> None: ...


def state_cannot_be_stored() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> Callable[[], int]:
            return lambda: 1

        @restore
        def load(self, saved: Callable[[], int]) -> None: ...


def state_of_a_strange_class() -> None:
    class Strange: ...

    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> Strange:
            return Strange()

        @restore
        def load(self, saved: Strange) -> None: ...


def checkpoint_without_type() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self):  # type: ignore[no-untyped-def]  # noqa: ANN202  # the mistake under test
            return 1

        @restore
        def load(self, saved: int) -> None: ...


def restore_without_type() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> int:
            return 1

        @restore
        def load(self, saved) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  # the mistake under test


def restore_takes_two() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> int:
            return 1

        @restore
        def load(self, saved: int, more: int) -> None: ...


def async_hook() -> type:
    class Job:
        @checkpoint
        async def save(self) -> int:
            return 1

    return Job


def hook_on_a_property() -> type:
    class Job:
        @checkpoint  # type: ignore[prop-decorator]  # the mistake under test
        @property
        def save(self) -> int:
            return 1

    return Job


def progress_of_text() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None: ...

        @progress
        def done(self) -> str:
            return "half"


def hidden_hook() -> None:
    class Base:
        @progress
        def done(self) -> int:
            return 1

    @durable_job("k")
    class Job(Base):
        def run(self) -> None: ...

        def done(self) -> int:
            return 2


def state_changes_unsaved() -> None:
    @durable_job("k")
    class Job:
        def __init__(self) -> None:
            self.count = 0

        def run(self) -> None:
            self.count += 1


def state_changes_in_place() -> None:
    @durable_job("k")
    class Job:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def run(self, job: JobContext) -> None:
            self.seen.append(job.attempt)


def state_of_a_base_changes_in_place() -> None:
    class Base:
        def __init__(self) -> None:
            self.totals = Counter[str]()

    @durable_job("k")
    class Job(Base):
        def run(self) -> None:
            self.totals.update(["x"])


def annotation_is_no_expression() -> None:
    def job(job: JobContext, n: Any) -> None: ...

    job.__annotations__["n"] = "int |"
    durable_job("k")(job)


def annotation_breaks() -> None:
    def job(job: JobContext, n: Any) -> None: ...

    job.__annotations__["n"] = "1 + 'a'"
    durable_job("k")(job)


def on_a_partial() -> None:
    def job(job: JobContext, n: int) -> None: ...

    durable_job("k")(partial(job, n=1))


def factory_of_a_function() -> None:
    @durable_job("k", factory=dict)
    def job() -> None: ...


def factory_that_needs_arguments() -> None:
    @durable_job("k", factory=Client.update)  # type: ignore[arg-type]  # the mistake
    class Job:
        def run(self) -> None: ...


def state_is_assigned_in_a_tuple() -> None:
    @durable_job("k")
    class Job:
        def run(self) -> None:
            _, self.count = 1, 2


def state_changes_in_a_base_class() -> None:
    class Base:
        def step(self) -> None:
            self.seen: dict[str, int] = {}

    @durable_job("k")
    class Job(Base):
        def run(self) -> None:
            self.step()


def state_changes_below_an_attribute() -> None:
    @durable_job("k")
    class Job:
        def __init__(self) -> None:
            self.seen: dict[str, int] = {}

        def run(self) -> None:
            self.seen["a"] = 1


def no_run() -> None:
    @durable_job("k")
    class Job: ...


def static_run() -> None:
    @durable_job("k")
    class Job:
        @staticmethod
        def run() -> None: ...


def needs_arguments() -> None:
    @durable_job("k")
    class Job:
        def __init__(self, url: str) -> None: ...

        def run(self) -> None: ...


def abstract() -> None:
    @durable_job("k")
    class Job(abc.ABC):
        def run(self) -> None:
            self.step()

        @abc.abstractmethod
        def step(self) -> None: ...


def generator() -> None:
    @durable_job("k")
    def job() -> Iterator[int]:
        yield 1


def async_generator() -> None:
    @durable_job("k")
    async def job() -> AsyncIterator[int]:
        yield 1


def payload_without_type() -> None:
    @durable_job("k")
    def job(job: JobContext, size) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  # the mistake under test


def payload_of_a_callable() -> None:
    @durable_job("k")
    def job(job: JobContext, size: Callable[[], int]) -> None: ...


def positional_payload() -> None:
    @durable_job("k")
    def job(job: JobContext, size: int, /) -> None: ...


def many_arguments() -> None:
    @durable_job("k")
    def job(job: JobContext, *sizes: int) -> None: ...


def context_is_not_first() -> None:
    @durable_job("k")
    def job(size: int, job: JobContext) -> None: ...


def async_context_in_a_sync_handler() -> None:
    @durable_job("k")
    def job(job: AsyncJobContext) -> None: ...


def policy_is_no_text() -> None:
    @durable_job("k", policy=5)  # type: ignore[arg-type]  # the mistake under test
    def job() -> None: ...


def kind_is_missing() -> None:
    @durable_job  # type: ignore[arg-type]  # the mistake under test
    def job() -> None: ...


def kind_is_empty() -> None:
    @durable_job("")
    def job() -> None: ...


def unknown_control() -> None:
    @durable_job("k", controls=("stop",))
    def job() -> None: ...


def on_an_instance() -> None:
    durable_job("k")(object())  # type: ignore[type-var]  # the mistake under test


@pytest.mark.parametrize(
    ("mistaken", "place", "problem"),
    [
        (one_hook_only, "Job.save", "no restore hook"),
        (restore_alone, "Job.load", "no checkpoint hook"),
        (two_checkpoints, "Job.save_too", "'save' is a checkpoint hook already"),
        (two_progresses, "Job.done_too", "'done' is a progress hook already"),
        (types_differ, "Job.load", "takes str | None, but 'save' saves int"),
        (none_is_saved_but_not_taken, "Job.load", "but 'save' saves int | None"),
        (state_cannot_be_stored, "Job.save", "cannot be stored as JSON"),
        (state_of_a_strange_class, "Job.save", "Strange cannot be stored"),
        (checkpoint_without_type, "Job.save", "return type is not annotated"),
        (restore_without_type, "Job.load", "'saved' is not annotated"),
        (restore_takes_two, "Job.load", "takes the saved state and nothing else"),
        (async_hook, "save", "make it a plain method"),
        (hook_on_a_property, "property", "put it right above a method's def"),
        (progress_of_text, "Job.done", "answers a Progress or a number"),
        (hidden_hook, "Job.done", "hides the progress hook"),
        (state_changes_unsaved, "Job.run", "'self.count' changes while the job runs"),
        (state_is_assigned_in_a_tuple, "Job.run", "'self.count'"),
        (state_changes_in_a_base_class, "Base.step", "'self.seen'"),
        (state_changes_below_an_attribute, "Job.run", "'self.seen'"),
        (no_run, "Job", "needs a method 'run'"),
        (static_run, "Job", "'run' is a staticmethod"),
        (needs_arguments, "Job", "cannot be made without arguments"),
        (abstract, "Job", "it is abstract (step)"),
        (generator, "job", "cannot be a generator"),
        (async_generator, "job", "cannot be a generator"),
        (payload_without_type, "job", "'size' is not annotated"),
        (payload_of_a_callable, "job", "no JSON payload can fill"),
        (positional_payload, "job", "cannot be given by name"),
        (many_arguments, "job", "cannot be given by name"),
        (context_is_not_first, "job", "make it the first parameter"),
        (async_context_in_a_sync_handler, "job", "annotate JobContext"),
        (policy_is_no_text, "job", "policy: a text is needed"),
        (kind_is_missing, "job", "write @durable_job('rebuild')"),
        (kind_is_empty, "job", "kind: it must not be empty"),
        (unknown_control, "job", "controls are a tuple of pause, cancel, retry"),
        (on_an_instance, "object", "put it on a class or a function"),
        (on_a_partial, "job", "stands on a partial; put it on a class or a function"),
        (state_changes_in_place, "Job.run", "'self.seen' changes while the job runs"),
        (state_of_a_base_changes_in_place, "Job.run", "'self.totals' changes while the job runs"),
        (annotation_is_no_expression, "job", "'int |' cannot be understood (SyntaxError"),
        (annotation_breaks, "job", "cannot be understood (TypeError"),
        (factory_of_a_function, "job", "a function needs none: remove it"),
        (factory_that_needs_arguments, "Job", "the factory cannot be called without arguments"),
    ],
)
def test_a_mistake_is_refused_where_it_stands(mistaken: Callable[[], object], place: str, problem: str) -> None:
    with pytest.raises(InvalidHookError) as refusal:
        mistaken()

    assert problem in refusal.value.problem
    assert refusal.value.where.endswith(place)


def test_a_mistake_names_file_and_line() -> None:
    with pytest.raises(InvalidHookError) as refusal:
        state_changes_unsaved()

    line = state_changes_unsaved.__code__.co_firstlineno + 7
    assert refusal.value.where.endswith(f"test_registration.py:{line} Job.run")
    assert refusal.value.source == "self.count += 1"
    assert "Job.run `self.count += 1`: 'self.count' changes while the job runs" in str(refusal.value)


def test_a_mistake_in_a_shape_shows_the_definition_and_not_its_decorators() -> None:
    with pytest.raises(InvalidHookError) as refusal:
        factory_that_needs_arguments()

    assert refusal.value.source == "class Job:"


class Client:
    """A thing outside: what a call does to it is no state of the job."""

    def update(self, rows: int) -> int:
        return rows


def test_calls_of_things_that_are_no_collections_are_no_state(memory: JobStore) -> None:
    @durable_job("k")
    class Job:
        def __init__(self) -> None:
            self.client = Client()

        def run(self) -> int:
            return self.client.update(4)

    assert ran(memory, Job, "k").result == 4


def test_a_factory_hands_in_what_a_handler_needs(memory: JobStore) -> None:
    made: list[str] = []

    def factory() -> Any:
        made.append("one")
        return Needy(7)

    @durable_job("k", factory=factory)
    class Needy:
        def __init__(self, number: int) -> None:
            self.number = number

        def run(self, job: JobContext) -> int:
            if job.attempt == 1:
                raise OSError
            return self.number

    assert ran(memory, Needy, "k").result == 7
    assert made == ["one", "one"]


def test_a_factory_that_makes_something_else_fails_the_attempt(memory: JobStore) -> None:
    @durable_job("k", factory=dict)
    class Job:
        def run(self) -> None: ...

    assert str(ran(memory, Job, "k", policy="small").error) == "TypeError: the factory of Job made a dict"


@durable_job("later")
class Later:
    def run(self, job: JobContext) -> None: ...

    @checkpoint
    def save(self) -> DefinedBelow:
        return DefinedBelow(1)

    @restore
    def load(self, saved: DefinedBelow | None) -> None: ...


class DefinedBelow(int):
    """A type that is defined after the class that saves it; pydantic does not know how to store it."""


def test_what_cannot_be_seen_at_decoration_is_refused_by_the_host(memory: JobStore) -> None:
    with pytest.raises(InvalidHookError) as refusal:
        JobHost(memory, [Later])

    assert "DefinedBelow cannot be stored" in refusal.value.problem


def test_a_name_that_only_type_checkers_see_is_refused_by_the_host(memory: JobStore) -> None:
    @durable_job("k")
    def job(price: ForTypeCheckersOnly) -> None: ...

    with pytest.raises(InvalidHookError) as refusal:
        JobHost(memory, [job])

    assert "ForTypeCheckersOnly" in refusal.value.problem


def plain() -> None: ...


def test_a_function_that_was_not_registered_is_refused(memory: JobStore) -> None:
    with pytest.raises(InvalidHookError, match="register it with @durable_job"):
        JobHost(memory, [plain])


def test_two_handlers_of_one_kind_are_refused(memory: JobStore) -> None:
    @durable_job("k")
    def first() -> None: ...

    @durable_job("k")
    def second() -> None: ...

    with pytest.raises(InvalidHookError, match="already handled by 'first'"):
        JobHost(memory, [first, second])


def test_registering_leaves_the_class_as_it_was() -> None:
    class Job:
        def run(self, job: JobContext, size: int) -> int:
            return size + job.attempt

    assert durable_job("k")(Job) is Job


def test_well_shaped_handlers_are_accepted(memory: JobStore) -> None:
    """Restoring may add None; progress may be a number; state may change once it is saved; ``run`` may take nothing."""

    class Base:
        @progress
        def done(self) -> Progress | int:
            return 1

    @durable_job("first", policy="small", controls=("cancel",))
    class First(Base):
        def __init__(self) -> None:
            self.count = 0

        def run(self) -> None:
            self.count += 1

        @checkpoint
        def save(self) -> dict[str, int]:
            return {"count": self.count}

        @restore
        def load(self, saved: dict[str, int] | None) -> None:
            self.count = saved["count"] if saved else 0

    @durable_job("second")
    async def second(job: AsyncJobContext, **payload: Any) -> None: ...

    host = JobHost(memory, [First, second])

    assert host.request_defaults("first") == ("small", ("cancel",))


def test_a_policy_that_the_store_does_not_know_is_refused_before_anything_is_claimed(memory: JobStore) -> None:
    """A worker that was started without its policies says so at once, and names the known ones."""

    @durable_job("k", policy="nightly")
    def handler() -> None: ...

    with pytest.raises(InvalidHookError, match="no policy 'nightly'; known ones: default, hasty, quick"):
        JobHost(memory, [handler])


def test_a_handler_that_is_given_twice_is_said_to_be_given_twice(memory: JobStore) -> None:
    """It is no second handler of its kind, so the sentence must not look for one."""

    @durable_job("k")
    def handler() -> None: ...

    with pytest.raises(InvalidHookError, match=r"handler `.*`: it is given twice; name each handler once"):
        JobHost(memory, [handler, handler])


def test_a_control_that_is_named_twice_is_refused_where_it_stands() -> None:
    """Else every creation of such a job would be refused, far from the mistake."""

    def handler() -> None: ...

    with pytest.raises(InvalidHookError, match="a control is named twice"):
        durable_job("k", controls=("cancel", "cancel"))(handler)
