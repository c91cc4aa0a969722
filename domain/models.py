"""The base of every model that callers build: frozen, closed, and mistaken in one typed way."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from jobledger.domain.errors import InvalidRequestError


class Model(BaseModel):
    """A frozen model whose every mistake is an ``InvalidRequestError`` that names the field.

    Source: pydantic, with unknown fields forbidden and no silent conversion.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    def __init__(self, /, **values: Any) -> None:
        """Build and validate.

        Raises:
            InvalidRequestError: a field is missing, unknown, or of another type.
        """
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            field = ".".join(str(part) for part in (type(self).__name__, *first["loc"]))
            raise InvalidRequestError(field, f"{first['msg'][:1].lower()}{first['msg'][1:]}") from None
