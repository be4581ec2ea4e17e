from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MatchKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MATCH_KIND_UNSPECIFIED: _ClassVar[MatchKind]
    MATCH_KIND_EQUAL: _ClassVar[MatchKind]
    MATCH_KIND_NOT_EQUAL: _ClassVar[MatchKind]
    MATCH_KIND_IN: _ClassVar[MatchKind]
    MATCH_KIND_NOT_IN: _ClassVar[MatchKind]
    MATCH_KIND_EQUAL_FOLD: _ClassVar[MatchKind]
    MATCH_KIND_NOT_EQUAL_FOLD: _ClassVar[MatchKind]
    MATCH_KIND_REGEXP: _ClassVar[MatchKind]
    MATCH_KIND_NOT_REGEXP: _ClassVar[MatchKind]
    MATCH_KIND_PRESENT: _ClassVar[MatchKind]
    MATCH_KIND_ABSENT: _ClassVar[MatchKind]

class Aggregate(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGGREGATE_UNSPECIFIED: _ClassVar[Aggregate]
    AGGREGATE_SUM: _ClassVar[Aggregate]
    AGGREGATE_COUNT: _ClassVar[Aggregate]
    AGGREGATE_MIN: _ClassVar[Aggregate]
    AGGREGATE_MAX: _ClassVar[Aggregate]
    AGGREGATE_FIRST: _ClassVar[Aggregate]
    AGGREGATE_LAST: _ClassVar[Aggregate]
    AGGREGATE_DIGEST: _ClassVar[Aggregate]
    AGGREGATE_HIDDEN: _ClassVar[Aggregate]
MATCH_KIND_UNSPECIFIED: MatchKind
MATCH_KIND_EQUAL: MatchKind
MATCH_KIND_NOT_EQUAL: MatchKind
MATCH_KIND_IN: MatchKind
MATCH_KIND_NOT_IN: MatchKind
MATCH_KIND_EQUAL_FOLD: MatchKind
MATCH_KIND_NOT_EQUAL_FOLD: MatchKind
MATCH_KIND_REGEXP: MatchKind
MATCH_KIND_NOT_REGEXP: MatchKind
MATCH_KIND_PRESENT: MatchKind
MATCH_KIND_ABSENT: MatchKind
AGGREGATE_UNSPECIFIED: Aggregate
AGGREGATE_SUM: Aggregate
AGGREGATE_COUNT: Aggregate
AGGREGATE_MIN: Aggregate
AGGREGATE_MAX: Aggregate
AGGREGATE_FIRST: Aggregate
AGGREGATE_LAST: Aggregate
AGGREGATE_DIGEST: Aggregate
AGGREGATE_HIDDEN: Aggregate

class Matcher(_message.Message):
    __slots__ = ("name", "kind", "values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    kind: MatchKind
    values: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, name: _Optional[bytes] = ..., kind: _Optional[_Union[MatchKind, str]] = ..., values: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Selector(_message.Message):
    __slots__ = ("database", "metric", "metric_any", "matchers", "exact")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    METRIC_ANY_FIELD_NUMBER: _ClassVar[int]
    MATCHERS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    database: bytes
    metric: bytes
    metric_any: bool
    matchers: _containers.RepeatedCompositeFieldContainer[Matcher]
    exact: bool
    def __init__(self, database: _Optional[bytes] = ..., metric: _Optional[bytes] = ..., metric_any: bool = ..., matchers: _Optional[_Iterable[_Union[Matcher, _Mapping]]] = ..., exact: bool = ...) -> None: ...

class Windows(_message.Message):
    __slots__ = ("origin_ms", "width_ms", "aggregates", "recorded_digests")
    ORIGIN_MS_FIELD_NUMBER: _ClassVar[int]
    WIDTH_MS_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    RECORDED_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    origin_ms: int
    width_ms: int
    aggregates: _containers.RepeatedScalarFieldContainer[Aggregate]
    recorded_digests: bool
    def __init__(self, origin_ms: _Optional[int] = ..., width_ms: _Optional[int] = ..., aggregates: _Optional[_Iterable[_Union[Aggregate, str]]] = ..., recorded_digests: bool = ...) -> None: ...

class ScanLimits(_message.Message):
    __slots__ = ("series_max", "samples_max", "bytes_max")
    SERIES_MAX_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_MAX_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    series_max: int
    samples_max: int
    bytes_max: int
    def __init__(self, series_max: _Optional[int] = ..., samples_max: _Optional[int] = ..., bytes_max: _Optional[int] = ...) -> None: ...

class Columns(_message.Message):
    __slots__ = ("time_deltas_ms", "values", "sums", "counts", "mins", "maxs", "firsts", "lasts", "digests", "hidden")
    TIME_DELTAS_MS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SUMS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MINS_FIELD_NUMBER: _ClassVar[int]
    MAXS_FIELD_NUMBER: _ClassVar[int]
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    LASTS_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    time_deltas_ms: _containers.RepeatedScalarFieldContainer[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    sums: _containers.RepeatedScalarFieldContainer[float]
    counts: _containers.RepeatedScalarFieldContainer[int]
    mins: _containers.RepeatedScalarFieldContainer[float]
    maxs: _containers.RepeatedScalarFieldContainer[float]
    firsts: _containers.RepeatedScalarFieldContainer[float]
    lasts: _containers.RepeatedScalarFieldContainer[float]
    digests: _containers.RepeatedScalarFieldContainer[int]
    hidden: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, time_deltas_ms: _Optional[_Iterable[int]] = ..., values: _Optional[_Iterable[float]] = ..., sums: _Optional[_Iterable[float]] = ..., counts: _Optional[_Iterable[int]] = ..., mins: _Optional[_Iterable[float]] = ..., maxs: _Optional[_Iterable[float]] = ..., firsts: _Optional[_Iterable[float]] = ..., lasts: _Optional[_Iterable[float]] = ..., digests: _Optional[_Iterable[int]] = ..., hidden: _Optional[_Iterable[int]] = ...) -> None: ...

class Tag(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: bytes
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class Series(_message.Message):
    __slots__ = ("database", "metric", "tags")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    database: bytes
    metric: bytes
    tags: _containers.RepeatedCompositeFieldContainer[Tag]
    def __init__(self, database: _Optional[bytes] = ..., metric: _Optional[bytes] = ..., tags: _Optional[_Iterable[_Union[Tag, _Mapping]]] = ...) -> None: ...

class Freshness(_message.Message):
    __slots__ = ("staleness_max_ms",)
    STALENESS_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    staleness_max_ms: int
    def __init__(self, staleness_max_ms: _Optional[int] = ...) -> None: ...
