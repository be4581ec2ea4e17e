from tickmesh.v1 import error_pb2 as _error_pb2
from tickmesh.v1 import scan_pb2 as _scan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WriteLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WRITE_LEVEL_UNSPECIFIED: _ClassVar[WriteLevel]
    WRITE_LEVEL_ALL: _ClassVar[WriteLevel]
WRITE_LEVEL_UNSPECIFIED: WriteLevel
WRITE_LEVEL_ALL: WriteLevel

class BatchId(_message.Message):
    __slots__ = ("session", "counter")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    session: int
    counter: int
    def __init__(self, session: _Optional[int] = ..., counter: _Optional[int] = ...) -> None: ...

class SeriesHandle(_message.Message):
    __slots__ = ("handle", "series")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    handle: int
    series: _scan_pb2.Series
    def __init__(self, handle: _Optional[int] = ..., series: _Optional[_Union[_scan_pb2.Series, _Mapping]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("batch_id", "definitions", "handles", "time_deltas_ms", "values", "level", "hours")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    TIME_DELTAS_MS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    HOURS_FIELD_NUMBER: _ClassVar[int]
    batch_id: BatchId
    definitions: _containers.RepeatedCompositeFieldContainer[SeriesHandle]
    handles: _containers.RepeatedScalarFieldContainer[int]
    time_deltas_ms: _containers.RepeatedScalarFieldContainer[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    level: WriteLevel
    hours: bool
    def __init__(self, batch_id: _Optional[_Union[BatchId, _Mapping]] = ..., definitions: _Optional[_Iterable[_Union[SeriesHandle, _Mapping]]] = ..., handles: _Optional[_Iterable[int]] = ..., time_deltas_ms: _Optional[_Iterable[int]] = ..., values: _Optional[_Iterable[float]] = ..., level: _Optional[_Union[WriteLevel, str]] = ..., hours: bool = ...) -> None: ...

class RefusedSeries(_message.Message):
    __slots__ = ("handle", "error")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    handle: int
    error: _error_pb2.Error
    def __init__(self, handle: _Optional[int] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class WriteResult(_message.Message):
    __slots__ = ("copies", "refused", "level")
    COPIES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    copies: int
    refused: _containers.RepeatedCompositeFieldContainer[RefusedSeries]
    level: WriteLevel
    def __init__(self, copies: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[RefusedSeries, _Mapping]]] = ..., level: _Optional[_Union[WriteLevel, str]] = ...) -> None: ...

class WriteRequest(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class WriteResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: WriteResult
    def __init__(self, result: _Optional[_Union[WriteResult, _Mapping]] = ...) -> None: ...

class WriteStreamRequest(_message.Message):
    __slots__ = ("sequence", "batch", "timeout_ms")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    batch: Batch
    timeout_ms: int
    def __init__(self, sequence: _Optional[int] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class WriteStreamResponse(_message.Message):
    __slots__ = ("sequence", "result", "error")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    result: WriteResult
    error: _error_pb2.Error
    def __init__(self, sequence: _Optional[int] = ..., result: _Optional[_Union[WriteResult, _Mapping]] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...
