"""How a payload becomes the arguments of a handler: by name, each checked by pydantic against its annotation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from jobledger.adapters.worker.awaiting import AsyncJobContext
from jobledger.adapters.worker.context import JobContext
from jobledger.adapters.worker.depending import Depends, need_of
from jobledger.adapters.worker.places import meaning, mistake
from jobledger.adapters.worker.storable import load
from jobledger.domain.values import Json

CONTEXT_NAME: Final = "job"
_PLAIN: Final = (str, int, float, bool)
"""Types whose values cannot be changed, and of which pydantic makes nothing else."""
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class PayloadMisfitError(Exception):
    """The payload does not fit the handler's parameters; it becomes the error of a failed attempt."""

    def __str__(self) -> str:
        return f"the payload does not fit the handler: {self.args[0]}"


@dataclass(frozen=True, slots=True)
class Field:
    """One payload parameter: how its value is read, and whether it must be given.

    ``plain`` is a type whose own values are read as they are; ``None``: there is none such.
    """

    reader: TypeAdapter[Any]
    is_required: bool
    plain: type[Any] | None = None

    def read(self, value: Json) -> Any:
        """The argument for a stored value.

        Raises:
            pydantic.ValidationError: it does not fit.
        """
        return value if type(value) is self.plain else load(self.reader, value)


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a handler takes: its context (by name, ``None``: not at all), payload fields, and any further fields.

    A payload that is an object gives the fields by name. One that is no object is the value of the only parameter there
    is. ``null`` is an object without fields, unless the only parameter must be given. A handler without payload
    parameters is not held to the payload: it reads ``JobContext.payload``. What it ``needs`` comes from providers.
    """

    context: str | None
    fields: Mapping[str, Field]
    others: Field | None
    needs: Mapping[str, Depends] = field(default_factory=dict[str, Depends])

    def bind(self, payload: Json) -> dict[str, Any]:
        """The arguments for a payload.

        Raises:
            PayloadMisfitError: it does not fit; names every field that is wrong, and never its value.
        """
        if not self.fields and self.others is None:
            return {}
        given = self._as_object(payload)
        problems = [
            f"{name!r} is missing" for name, each in self.fields.items() if each.is_required and name not in given
        ]
        arguments: dict[str, Any] = {}
        for name, value in given.items():
            taken = self.fields.get(name, self.others)
            if taken is None:
                problems.append(f"{name!r} is unknown")
                continue
            try:
                arguments[name] = taken.read(value)
            except ValidationError as error:
                problems.append(_sentence(name, error))
            if name == self.context:
                problems.append(f"{name!r} is the name of the handler's context")
            if name in self.needs:
                problems.append(f"{name!r} is given to the handler by its host")
        if problems:
            raise PayloadMisfitError("; ".join(problems))
        return arguments

    def _as_object(self, payload: Json) -> dict[str, Json]:
        if isinstance(payload, dict):
            return payload
        single = next(iter(self.fields.items())) if len(self.fields) == 1 and self.others is None else None
        if payload is None and not (single and single[1].is_required):
            return {}
        if single is None:
            problem = f"an object is needed, not {type(payload).__name__}"
            raise PayloadMisfitError(problem)
        return {single[0]: payload}


def _sentence(name: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in (name, *first["loc"]))
    return f"{place!r}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def parameters_of(function: Any, names: Mapping[str, Any], *, owner: type | None, is_async: bool) -> Parameters:
    """Read what a handler takes; ``owner`` is its class, where it is a method.

    Raises:
        InvalidHookError: a parameter cannot be filled.
        NameError: an annotation names something that is not defined (yet).
    """
    parameters = list(inspect.signature(function).parameters.values())[1 if owner else 0 :]
    context = None
    if parameters and _is_context(parameters[0], function, names, owner=owner, is_async=is_async):
        context = parameters.pop(0).name
    fields: dict[str, Field] = {}
    needs: dict[str, Depends] = {}
    others = None
    for parameter in parameters:
        if need := _need(parameter, function, names, owner):
            needs[parameter.name] = need
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            others = _field(parameter, function, names, owner)
        elif parameter.kind in _NAMED:
            fields[parameter.name] = _field(parameter, function, names, owner)
        else:
            problem = f"{parameter.name!r} cannot be given by name; payload fields are: take it as a plain parameter"
            raise mistake(function, problem, owner=owner)
    return Parameters(context, fields, others, needs)


def _is_context(
    parameter: inspect.Parameter, function: Any, names: Mapping[str, Any], *, owner: type | None, is_async: bool
) -> bool:
    """Whether the first parameter takes the context: by its annotation, or by the name ``job`` without one."""
    if parameter.kind not in _NAMED:
        return False
    if parameter.annotation is inspect.Parameter.empty:
        return parameter.name == CONTEXT_NAME
    kind = meaning(parameter.annotation, function, names)
    if kind is AsyncJobContext and not is_async:
        raise mistake(function, "only an async handler is given an AsyncJobContext; annotate JobContext", owner=owner)
    return kind in (JobContext, AsyncJobContext)


def _need(parameter: inspect.Parameter, function: Any, names: Mapping[str, Any], owner: type | None) -> Depends | None:
    if parameter.kind not in _NAMED or parameter.annotation is inspect.Parameter.empty:
        return None
    return need_of(parameter, meaning(parameter.annotation, function, names), function, owner)


def _field(parameter: inspect.Parameter, function: Any, names: Mapping[str, Any], owner: type | None) -> Field:
    if parameter.annotation is inspect.Parameter.empty:
        problem = f"{parameter.name!r} is not annotated; payload parameters are checked by their types: give it one"
        raise mistake(function, problem, owner=owner)
    kind = meaning(parameter.annotation, function, names)
    if kind in (JobContext, AsyncJobContext):
        raise mistake(function, f"{parameter.name!r} takes the context; make it the first parameter", owner=owner)
    try:
        reader = TypeAdapter(kind)
        reader.json_schema(mode="validation")
    except (PydanticUserError, TypeError) as error:
        problem = f"{parameter.name!r} has a type that no JSON payload can fill ({str(error).splitlines()[0]})"
        raise mistake(function, f"{problem}; use plain types, models or dataclasses", owner=owner) from None
    is_required = parameter.default is inspect.Parameter.empty and parameter.kind in _NAMED
    return Field(reader, is_required, kind if kind in _PLAIN else None)
