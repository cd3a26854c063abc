"""What a client hears when something is wrong: a status, and one sentence in JSON.

    {"error": {"type": "not_found", "message": "there is no model 'dmo' here; there are: demo"}}

A sentence names the value and the remedy, and never a file of this machine.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse

from regard.errors import RegardError

TYPES = {
    400: "malformed",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "wrong_model",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    429: "busy",
    499: "client_left",
    500: "internal",
    503: "unavailable",
    504: "timeout",
}


LONGEST = 1000  # characters of a sentence, which may quote what was sent
# A place in this machine's files: at least two names with slashes before them, or a drive.
PLACE = re.compile(r"(?<![\w.:/\\])(?:(?:/[^\s/:'\"]+){2,}/?|[A-Za-z]:\\[^\s:'\"]+)")

log = logging.getLogger("uvicorn.error")


class Fault(BaseModel):
    type: str
    message: str


class Faulty(BaseModel):
    """The body of every reply that is not a success."""

    error: Fault


class Refusal(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        told = one_line(message[: LONGEST + 1])
        self.message = told if len(told) <= LONGEST else f"{told[:LONGEST]}..."
        self.status, self.headers = status, dict(headers or {})

    def fault(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "refused")
        return Faulty(error=Fault(type=kind, message=self.message)).model_dump()

    def response(self) -> JSONResponse:
        return JSONResponse(self.fault(), self.status, self.headers)


def later(status: int, message: str) -> Refusal:
    return Refusal(status, f"{message}; ask again in a moment", {"Retry-After": "1"})


def explained(error: BaseException) -> Refusal:
    """What a client is told of an exception."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RegardError):
        told = without_places(str(error))
        if told != str(error):
            log.warning("a client heard %r instead of %r", told, str(error))
        return Refusal(422, told)
    if isinstance(error, ValidationError):
        return _first_fault(error)
    if isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error):
        return Refusal(413, "there is not enough memory for a request of this size; send less at once")
    return Refusal(500, "something went wrong in here; the log of the server says what")


def one_line(message: str) -> str:
    """A sentence that may quote what was sent: line ends, and what else would change how it is shown, are escaped."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in message)


def without_places(message: str) -> str:
    """A sentence that may have been made for whoever runs the server, for everybody else."""
    return PLACE.sub("(a file here)", message)


def _first_fault(error: ValidationError) -> Refusal:
    first, *others = error.errors(include_url=False, include_input=False, include_context=False)
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        return Refusal(400, f"the body is not JSON ({message.removeprefix('Invalid JSON: ')})")
    told = f"{place or 'the body'}: {message[:1].lower()}{message[1:]}"
    return Refusal(422, told + f" (and {len(others)} more faults)" * bool(others))
