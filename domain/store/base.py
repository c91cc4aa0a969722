"""What every group of commands stands on: the storage, the namespace, the policies, chance, and patience."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobledger.domain.bounds import require_text
from jobledger.domain.errors import (
    InvalidRequestError,
    JobledgerError,
    UnknownJobError,
)
from jobledger.domain.policies import DEFAULT, Policy
from jobledger.domain.store.executing import (
    Call,
    Command,
    Decision,
    Runner,
    Told,
    cause_of,
    execute,
    execute_one,
    require_command_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobledger.domain.decisions.creating import JobRequest
    from jobledger.domain.lease import Fence, Standing
    from jobledger.domain.ports import Entropy, Session, Storage
    from jobledger.domain.values import Json

Answer = TypeVar("Answer")
Item = TypeVar("Item")

PATIENCE: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where commands run: a storage, one namespace, the policies known by name, and a source of ids and chance.

    ``patience`` is how long a call waits for its transaction to begin; ``admit`` says why a request is not admitted, or
    ``None``; ``run`` is how commands are run that are not part of a batch.
    """

    storage: Storage
    entropy: Entropy
    namespace: str = "default"
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])
    patience: timedelta = PATIENCE
    admit: Callable[[JobRequest], str | None] | None = None
    run: Runner = execute_one

    def __post_init__(self) -> None:
        """Check the names, and see to it that the policy ``default`` exists."""
        require_text("namespace", self.namespace)
        for name, policy in self.policies.items():
            require_text("policies", name)
            if not isinstance(policy, Policy):
                raise InvalidRequestError(f"policies.{name}", f"a Policy is needed, not {type(policy).__name__}")
        object.__setattr__(self, "policies", {DEFAULT: Policy()} | dict(self.policies))


class Commands:
    """A group of commands; each runs load, decide, append, and is answered from the facts it caused."""

    def __init__(self, setting: Setting) -> None:
        """Run commands in this setting."""
        self._setting = setting

    @property
    def setting(self) -> Setting:
        """Where commands run; for adapters that run them by themselves, together with others."""
        return self._setting

    def _call(self) -> Call:
        return Call(self._setting.patience)

    def _command(
        self,
        job_id: str,
        name: str,
        arguments: Json,
        *,
        command_id: str | None,
        decide: Callable[[Session, Standing], Decision],
        answer: Callable[[Told], Answer],
        fence: Fence | None = None,
        step: int | None = None,
    ) -> Command[Answer]:
        """A command on a job that has to exist."""
        require_text("job_id", job_id)
        known_id, is_given = require_command_id(command_id, self._setting.entropy.new_id)

        def decide_on_existing(session: Session, standing: Standing | None, _: datetime) -> Decision:
            if standing is None:
                raise UnknownJobError(job_id)
            return decide(session, standing)

        return Command(
            job_id=job_id,
            namespace=self._setting.namespace,
            cause=cause_of(name, arguments, known_id),
            is_given=is_given,
            decide=decide_on_existing,
            answer=answer,
            fence=fence,
            step=step,
        )

    def _run_each(
        self, items: Sequence[Item], make: Callable[[Item], Command[Answer]]
    ) -> list[Answer | JobledgerError]:
        """Run a command for each item of a batch; one answer per item, in order, also where none can be made of it."""
        answers: dict[int, Answer | JobledgerError] = {}
        commands: dict[int, Command[Answer]] = {}
        for place, item in enumerate(items):
            try:
                commands[place] = make(item)
            except JobledgerError as invalid:
                answers[place] = invalid
        made = execute(self._setting.storage, list(commands.values()), self._call())
        answers |= dict(zip(commands, made, strict=True))
        return [answers[place] for place in range(len(items))]

    def _run(self, command: Command[Answer], call: Call | None = None) -> Answer:
        return self._setting.run(self._setting.storage, command, call or self._call())


def require_expected(expected_sequence: Any) -> int | None:
    """Require a control sequence or none.

    Raises:
        InvalidRequestError: it is neither a whole number nor ``None``.
    """
    if expected_sequence is not None and (type(expected_sequence) is not int or expected_sequence < 1):
        raise InvalidRequestError("expected_sequence", f"a whole number from 1 is needed, not {expected_sequence!r}")
    return expected_sequence
