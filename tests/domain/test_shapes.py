"""What everybody is handed is a value: nobody can change it under anybody's hands."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from jobledger.domain import answers, events, history, job, lease, models, policies, values
from jobledger.domain.decisions import creating, working

HANDED_OUT = (answers, events, history, job, lease, policies, values, creating, working)


def classes_of(module: Any) -> list[type]:
    """The classes that a module defines for others."""
    found = [each for name, each in inspect.getmembers(module, inspect.isclass) if not name.startswith("_")]
    return [each for each in found if each.__module__ == module.__name__]


VALUES = [each for module in HANDED_OUT for each in classes_of(module) if dataclasses.is_dataclass(each)]
MODELS = [each for module in HANDED_OUT for each in classes_of(module) if issubclass(each, models.Model)]


@pytest.mark.parametrize("value", VALUES, ids=lambda each: each.__name__)
def test_a_value_is_frozen(value: Any) -> None:
    assert value.__dataclass_params__.frozen
    assert value.__dataclass_params__.eq


@pytest.mark.parametrize("model", [models.Model, *MODELS], ids=lambda each: each.__name__)
def test_a_model_is_frozen_and_closed(model: Any) -> None:
    assert model.model_config["frozen"]
    assert model.model_config["strict"]
    assert model.model_config["extra"] == "forbid"
