from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_KIND_UNSPECIFIED: _ClassVar[ErrorKind]
    ERROR_KIND_UNAVAILABLE: _ClassVar[ErrorKind]
    ERROR_KIND_OVERLOADED: _ClassVar[ErrorKind]
    ERROR_KIND_READ_ONLY: _ClassVar[ErrorKind]
    ERROR_KIND_SERIES_LIMIT: _ClassVar[ErrorKind]
    ERROR_KIND_BATCH_OLD: _ClassVar[ErrorKind]
    ERROR_KIND_INVALID: _ClassVar[ErrorKind]
    ERROR_KIND_QUERY_LIMIT: _ClassVar[ErrorKind]
    ERROR_KIND_CANCELLED: _ClassVar[ErrorKind]
    ERROR_KIND_DEADLINE: _ClassVar[ErrorKind]
    ERROR_KIND_NOT_FOUND: _ClassVar[ErrorKind]
    ERROR_KIND_REFUSED: _ClassVar[ErrorKind]
    ERROR_KIND_INTERNAL: _ClassVar[ErrorKind]
    ERROR_KIND_VERSION: _ClassVar[ErrorKind]
    ERROR_KIND_BATCH: _ClassVar[ErrorKind]
    ERROR_KIND_KEY: _ClassVar[ErrorKind]
    ERROR_KIND_SERIES_RATE: _ClassVar[ErrorKind]
    ERROR_KIND_UNAUTHENTICATED: _ClassVar[ErrorKind]
    ERROR_KIND_DENIED: _ClassVar[ErrorKind]
    ERROR_KIND_NOT_LEADER: _ClassVar[ErrorKind]
    ERROR_KIND_ERA: _ClassVar[ErrorKind]
    ERROR_KIND_WRONG_CLUSTER: _ClassVar[ErrorKind]
    ERROR_KIND_WRONG_NODE: _ClassVar[ErrorKind]
    ERROR_KIND_RETIRED: _ClassVar[ErrorKind]
    ERROR_KIND_TWIN: _ClassVar[ErrorKind]
    ERROR_KIND_STALE_MAP: _ClassVar[ErrorKind]
ERROR_KIND_UNSPECIFIED: ErrorKind
ERROR_KIND_UNAVAILABLE: ErrorKind
ERROR_KIND_OVERLOADED: ErrorKind
ERROR_KIND_READ_ONLY: ErrorKind
ERROR_KIND_SERIES_LIMIT: ErrorKind
ERROR_KIND_BATCH_OLD: ErrorKind
ERROR_KIND_INVALID: ErrorKind
ERROR_KIND_QUERY_LIMIT: ErrorKind
ERROR_KIND_CANCELLED: ErrorKind
ERROR_KIND_DEADLINE: ErrorKind
ERROR_KIND_NOT_FOUND: ErrorKind
ERROR_KIND_REFUSED: ErrorKind
ERROR_KIND_INTERNAL: ErrorKind
ERROR_KIND_VERSION: ErrorKind
ERROR_KIND_BATCH: ErrorKind
ERROR_KIND_KEY: ErrorKind
ERROR_KIND_SERIES_RATE: ErrorKind
ERROR_KIND_UNAUTHENTICATED: ErrorKind
ERROR_KIND_DENIED: ErrorKind
ERROR_KIND_NOT_LEADER: ErrorKind
ERROR_KIND_ERA: ErrorKind
ERROR_KIND_WRONG_CLUSTER: ErrorKind
ERROR_KIND_WRONG_NODE: ErrorKind
ERROR_KIND_RETIRED: ErrorKind
ERROR_KIND_TWIN: ErrorKind
ERROR_KIND_STALE_MAP: ErrorKind

class Error(_message.Message):
    __slots__ = ("kind", "message", "retry_after_ms", "limit")
    class Limit(_message.Message):
        __slots__ = ("what", "limit")
        WHAT_FIELD_NUMBER: _ClassVar[int]
        LIMIT_FIELD_NUMBER: _ClassVar[int]
        what: str
        limit: int
        def __init__(self, what: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    kind: ErrorKind
    message: str
    retry_after_ms: int
    limit: Error.Limit
    def __init__(self, kind: _Optional[_Union[ErrorKind, str]] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., limit: _Optional[_Union[Error.Limit, _Mapping]] = ...) -> None: ...
