"""Errors, and what they mean. See proto/tickmesh/v1/error.proto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Type

import grpc
from google.rpc import status_pb2

from tickmesh.v1 import error_pb2

if TYPE_CHECKING:
    from tickmesh.model import Series


class TickmeshError(Exception):
    """Any error of this package. retry_after_ms is when the server asks to try again."""

    may_pass = False

    def __init__(self, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class Unavailable(TickmeshError):
    """No server answers, or too few replicas. What was asked may have been done."""

    may_pass = True


class Overloaded(TickmeshError):
    """A queue of the server is at its bound. Parts of a write may have been written."""

    may_pass = True


class DeadlineExceeded(TickmeshError):
    """The time is over. What was asked may have been done."""

    may_pass = True


class ReadOnly(TickmeshError):
    """A disk is full, read-only or failing."""


class SeriesLimit(TickmeshError):
    """There may be no more series."""


class SeriesRate(SeriesLimit):
    """Too many new series a second."""

    may_pass = True


class BatchOld(TickmeshError):
    """Nobody knows any more whether the batch was written."""


class Invalid(TickmeshError):
    """The request is wrong and stays wrong."""


class QueryLimit(TickmeshError):
    """The query met one of its limits: `limit` of `what`."""

    what = ""
    limit = 0


class Cancelled(TickmeshError):
    """The caller, or the server, gave up."""


class NotFound(TickmeshError):
    """What is named does not exist."""


class Refused(TickmeshError):
    """The cluster is not in a state in which this may be done."""


class VersionMismatch(TickmeshError):
    """Client and server do not go together."""


class Internal(TickmeshError):
    """A fault of the server."""


class Unauthenticated(TickmeshError):
    """The server does not know who calls."""


class Denied(TickmeshError):
    """The caller is known and has not the right."""


class Closed(TickmeshError):
    """The client or the writer is closed."""


class BufferFull(TickmeshError):
    """The writer's buffer has no room and the writer may not wait."""


class Partial(TickmeshError):
    """The last thing of an answer that lacks shards; only where that was allowed."""

    def __init__(self, shards: List[int]) -> None:
        super().__init__(f"the answer is not complete: {len(shards)} shards do not answer")
        self.shards = shards


class RefusedSeries(TickmeshError):
    """The samples of one series were left out of a batch."""

    def __init__(self, series: Series, points: int, why: TickmeshError) -> None:
        super().__init__(f"{points} points of {series} are refused: {why}")
        self.series, self.points, self.why = series, points, why


class WriteError(TickmeshError):
    """What could not be written. Has the first errors; there were `total`."""

    def __init__(self, points: int, errors: List[TickmeshError], total: int) -> None:
        super().__init__(f"{points} points may not have been written, {total} errors, the first: {errors[0]}")
        self.points, self.errors, self.total = points, errors, total


def _kinds() -> dict[int, Type[TickmeshError]]:
    e = error_pb2
    return {
        e.ERROR_KIND_UNAVAILABLE: Unavailable,
        e.ERROR_KIND_OVERLOADED: Overloaded,
        e.ERROR_KIND_READ_ONLY: ReadOnly,
        e.ERROR_KIND_SERIES_LIMIT: SeriesLimit,
        e.ERROR_KIND_SERIES_RATE: SeriesRate,
        e.ERROR_KIND_BATCH_OLD: BatchOld,
        e.ERROR_KIND_INVALID: Invalid,
        e.ERROR_KIND_BATCH: Invalid,
        e.ERROR_KIND_KEY: Invalid,
        e.ERROR_KIND_QUERY_LIMIT: QueryLimit,
        e.ERROR_KIND_CANCELLED: Cancelled,
        e.ERROR_KIND_DEADLINE: DeadlineExceeded,
        e.ERROR_KIND_NOT_FOUND: NotFound,
        e.ERROR_KIND_REFUSED: Refused,
        e.ERROR_KIND_VERSION: VersionMismatch,
        e.ERROR_KIND_UNAUTHENTICATED: Unauthenticated,
        e.ERROR_KIND_DENIED: Denied,
    }


_CODES = {
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.UNIMPLEMENTED: VersionMismatch,
    grpc.StatusCode.FAILED_PRECONDITION: Refused,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Denied,
}

_DETAILS = "grpc-status-details-bin"


def of_message(message: Any) -> TickmeshError:
    """Returns the error of a tickmesh.v1.Error. Unknown kinds are Internal."""
    kind = _kinds().get(message.kind, Internal)
    error = kind(message.message, message.retry_after_ms)
    if isinstance(error, QueryLimit):
        error.what, error.limit = message.limit.what, message.limit.limit
    return error


def of_call(error: grpc.RpcError) -> TickmeshError:
    """Returns the error that a call ended with."""
    message = _detail(error)
    if message is not None:
        return of_message(message)
    code = error.code() if hasattr(error, "code") else None
    text = error.details() if hasattr(error, "details") else str(error)
    if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
        return Unavailable(f"the call broke: {text}")
    return _CODES.get(code, Internal)(text or str(code))


def _detail(error: grpc.RpcError) -> Optional[Any]:
    metadata = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    for name, value in metadata or ():
        if name != _DETAILS:
            continue
        status = status_pb2.Status.FromString(value)
        for detail in status.details:
            message = error_pb2.Error()
            if detail.Unpack(message):
                return message
    return None
