from tickmesh.v1 import scan_pb2 as _scan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NameKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NAME_KIND_UNSPECIFIED: _ClassVar[NameKind]
    NAME_KIND_DATABASE: _ClassVar[NameKind]
    NAME_KIND_METRIC: _ClassVar[NameKind]
    NAME_KIND_TAG_NAME: _ClassVar[NameKind]
    NAME_KIND_TAG_VALUE: _ClassVar[NameKind]
NAME_KIND_UNSPECIFIED: NameKind
NAME_KIND_DATABASE: NameKind
NAME_KIND_METRIC: NameKind
NAME_KIND_TAG_NAME: NameKind
NAME_KIND_TAG_VALUE: NameKind

class ScanRequest(_message.Message):
    __slots__ = ("selector", "from_ms", "to_ms", "windows", "limits", "freshness", "allow_partial", "snapshot")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    TO_MS_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    selector: _scan_pb2.Selector
    from_ms: int
    to_ms: int
    windows: _scan_pb2.Windows
    limits: _scan_pb2.ScanLimits
    freshness: _scan_pb2.Freshness
    allow_partial: bool
    snapshot: str
    def __init__(self, selector: _Optional[_Union[_scan_pb2.Selector, _Mapping]] = ..., from_ms: _Optional[int] = ..., to_ms: _Optional[int] = ..., windows: _Optional[_Union[_scan_pb2.Windows, _Mapping]] = ..., limits: _Optional[_Union[_scan_pb2.ScanLimits, _Mapping]] = ..., freshness: _Optional[_Union[_scan_pb2.Freshness, _Mapping]] = ..., allow_partial: bool = ..., snapshot: _Optional[str] = ...) -> None: ...

class SeriesChunk(_message.Message):
    __slots__ = ("series", "columns")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    series: _scan_pb2.Series
    columns: _scan_pb2.Columns
    def __init__(self, series: _Optional[_Union[_scan_pb2.Series, _Mapping]] = ..., columns: _Optional[_Union[_scan_pb2.Columns, _Mapping]] = ...) -> None: ...

class ScanResponse(_message.Message):
    __slots__ = ("chunks", "shards_missing", "raw_from_ms")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_MISSING_FIELD_NUMBER: _ClassVar[int]
    RAW_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    chunks: _containers.RepeatedCompositeFieldContainer[SeriesChunk]
    shards_missing: _containers.RepeatedScalarFieldContainer[int]
    raw_from_ms: int
    def __init__(self, chunks: _Optional[_Iterable[_Union[SeriesChunk, _Mapping]]] = ..., shards_missing: _Optional[_Iterable[int]] = ..., raw_from_ms: _Optional[int] = ...) -> None: ...

class LastRequest(_message.Message):
    __slots__ = ("selector", "from_ms", "limits", "freshness", "allow_partial")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    selector: _scan_pb2.Selector
    from_ms: int
    limits: _scan_pb2.ScanLimits
    freshness: _scan_pb2.Freshness
    allow_partial: bool
    def __init__(self, selector: _Optional[_Union[_scan_pb2.Selector, _Mapping]] = ..., from_ms: _Optional[int] = ..., limits: _Optional[_Union[_scan_pb2.ScanLimits, _Mapping]] = ..., freshness: _Optional[_Union[_scan_pb2.Freshness, _Mapping]] = ..., allow_partial: bool = ...) -> None: ...

class LastPoint(_message.Message):
    __slots__ = ("series", "time_ms", "value")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    series: _scan_pb2.Series
    time_ms: int
    value: float
    def __init__(self, series: _Optional[_Union[_scan_pb2.Series, _Mapping]] = ..., time_ms: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...

class LastResponse(_message.Message):
    __slots__ = ("points", "shards_missing")
    POINTS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_MISSING_FIELD_NUMBER: _ClassVar[int]
    points: _containers.RepeatedCompositeFieldContainer[LastPoint]
    shards_missing: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, points: _Optional[_Iterable[_Union[LastPoint, _Mapping]]] = ..., shards_missing: _Optional[_Iterable[int]] = ...) -> None: ...

class ListSeriesRequest(_message.Message):
    __slots__ = ("selector", "limit", "freshness", "allow_partial")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    selector: _scan_pb2.Selector
    limit: int
    freshness: _scan_pb2.Freshness
    allow_partial: bool
    def __init__(self, selector: _Optional[_Union[_scan_pb2.Selector, _Mapping]] = ..., limit: _Optional[int] = ..., freshness: _Optional[_Union[_scan_pb2.Freshness, _Mapping]] = ..., allow_partial: bool = ...) -> None: ...

class ListSeriesResponse(_message.Message):
    __slots__ = ("series", "total", "shards_missing")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SHARDS_MISSING_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[_scan_pb2.Series]
    total: int
    shards_missing: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, series: _Optional[_Iterable[_Union[_scan_pb2.Series, _Mapping]]] = ..., total: _Optional[int] = ..., shards_missing: _Optional[_Iterable[int]] = ...) -> None: ...

class ListNamesRequest(_message.Message):
    __slots__ = ("kind", "database", "metric", "tag_name", "prefix", "limit", "freshness", "snapshot")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    TAG_NAME_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    kind: NameKind
    database: bytes
    metric: bytes
    tag_name: bytes
    prefix: bytes
    limit: int
    freshness: _scan_pb2.Freshness
    snapshot: str
    def __init__(self, kind: _Optional[_Union[NameKind, str]] = ..., database: _Optional[bytes] = ..., metric: _Optional[bytes] = ..., tag_name: _Optional[bytes] = ..., prefix: _Optional[bytes] = ..., limit: _Optional[int] = ..., freshness: _Optional[_Union[_scan_pb2.Freshness, _Mapping]] = ..., snapshot: _Optional[str] = ...) -> None: ...

class ListNamesResponse(_message.Message):
    __slots__ = ("names", "left_out")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[bytes]
    left_out: bool
    def __init__(self, names: _Optional[_Iterable[bytes]] = ..., left_out: bool = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("selector", "from_ms", "to_ms")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    TO_MS_FIELD_NUMBER: _ClassVar[int]
    selector: _scan_pb2.Selector
    from_ms: int
    to_ms: int
    def __init__(self, selector: _Optional[_Union[_scan_pb2.Selector, _Mapping]] = ..., from_ms: _Optional[int] = ..., to_ms: _Optional[int] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ("series_touched",)
    SERIES_TOUCHED_FIELD_NUMBER: _ClassVar[int]
    series_touched: int
    def __init__(self, series_touched: _Optional[int] = ...) -> None: ...

class TakeSnapshotRequest(_message.Message):
    __slots__ = ("databases",)
    DATABASES_FIELD_NUMBER: _ClassVar[int]
    databases: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, databases: _Optional[_Iterable[bytes]] = ...) -> None: ...

class TakeSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    def __init__(self, snapshot: _Optional[str] = ...) -> None: ...

class EndSnapshotRequest(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    def __init__(self, snapshot: _Optional[str] = ...) -> None: ...

class EndSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
