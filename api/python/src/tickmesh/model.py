"""Series, selectors and what answers are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tickmesh.v1 import scan_pb2

TIME_MS_MIN = -(2**63) // 4
TIME_MS_MAX = (2**63 - 1) // 4


def encode(text: str) -> bytes:
    """Returns the bytes of a name. Surrogates stand for bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """Returns the name of bytes; encode returns the bytes again."""
    return data.decode("utf-8", "surrogateescape")


class Series:
    """The identity of a series. It never changes; make it once and use it for all its samples."""

    __slots__ = ("_bytes", "_key", "database", "metric", "tags")

    database: str
    metric: str
    tags: Mapping[str, str]

    def __init__(self, metric: str, tags: Optional[Mapping[str, str]] = None, database: str = "") -> None:
        if not metric:
            raise ValueError("the series has no metric")
        for name, value in (tags or {}).items():
            if not name or not value:
                raise ValueError(f"tag {name!r}={value!r} has no name or no value")
        self.metric, self.database, self.tags = metric, database, dict(tags or {})
        self._key = (database, metric, tuple(sorted(self.tags.items())))
        self._bytes = len(encode(database)) + len(encode(metric)) + sum(
            len(encode(name)) + len(encode(value)) for name, value in self.tags.items()
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Series) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        database = f", database={self.database!r}" if self.database else ""
        return f"Series({self.metric!r}, {dict(self.tags)!r}{database})"

    @property
    def message_bytes(self) -> int:
        """About how many bytes the series takes in a message, at most."""
        return 32 + self._bytes + 12 * len(self.tags)

    def to_message(self) -> Any:
        """Returns the message."""
        return scan_pb2.Series(
            database=encode(self.database),
            metric=encode(self.metric),
            tags=[scan_pb2.Tag(name=encode(name), value=encode(value)) for name, value in self.tags.items()],
        )

    @classmethod
    def of_message(cls, message: Any) -> Series:
        """Returns the series of a message."""
        return cls(decode(message.metric), {decode(t.name): decode(t.value) for t in message.tags}, decode(message.database))


class Sample(NamedTuple):
    """One value of a series."""

    series: Series
    time_ms: int
    value: float


@dataclass(frozen=True)
class Matcher:
    """Restricts series by one tag; the functions of this module make it."""

    name: str
    kind: int
    values: Tuple[str, ...] = ()

    def to_message(self) -> Any:
        """Returns the message."""
        return scan_pb2.Matcher(name=encode(self.name), kind=self.kind, values=[encode(v) for v in self.values])  # type: ignore[arg-type]


def equal(name: str, value: str) -> Matcher:
    """The tag has this value; an empty value: or is not there."""
    return Matcher(name, scan_pb2.MATCH_KIND_EQUAL, (value,))


def not_equal(name: str, value: str) -> Matcher:
    """The tag has another value, or is not there."""
    return Matcher(name, scan_pb2.MATCH_KIND_NOT_EQUAL, (value,))


def is_in(name: str, values: Iterable[str]) -> Matcher:
    """The tag has one of these values."""
    return Matcher(name, scan_pb2.MATCH_KIND_IN, tuple(values))


def not_in(name: str, values: Iterable[str]) -> Matcher:
    """The tag has none of these values."""
    return Matcher(name, scan_pb2.MATCH_KIND_NOT_IN, tuple(values))


def matches(name: str, expression: str) -> Matcher:
    """The whole value matches an RE2 expression."""
    return Matcher(name, scan_pb2.MATCH_KIND_REGEXP, (expression,))


def not_matches(name: str, expression: str) -> Matcher:
    """The whole value does not match an RE2 expression."""
    return Matcher(name, scan_pb2.MATCH_KIND_NOT_REGEXP, (expression,))


def present(name: str) -> Matcher:
    """The series has the tag."""
    return Matcher(name, scan_pb2.MATCH_KIND_PRESENT)


def absent(name: str) -> Matcher:
    """The series does not have the tag."""
    return Matcher(name, scan_pb2.MATCH_KIND_ABSENT)


@dataclass(frozen=True)
class Selector:
    """Picks series. A metric of None picks all metrics of the database; exact, only series that have no other tags
    than those of the matchers."""

    metric: Optional[str]
    matchers: Sequence[Matcher] = ()
    database: str = ""
    exact: bool = False

    def to_message(self) -> Any:
        """Returns the message."""
        return scan_pb2.Selector(
            database=encode(self.database),
            metric=encode(self.metric or ""),
            metric_any=self.metric is None,
            matchers=[m.to_message() for m in self.matchers],
            exact=self.exact,
        )


_AGGREGATES = {
    "sum": scan_pb2.AGGREGATE_SUM,
    "count": scan_pb2.AGGREGATE_COUNT,
    "min": scan_pb2.AGGREGATE_MIN,
    "max": scan_pb2.AGGREGATE_MAX,
    "first": scan_pb2.AGGREGATE_FIRST,
    "last": scan_pb2.AGGREGATE_LAST,
}


@dataclass(frozen=True)
class Windows:
    """Asks for aggregates by window instead of samples: sum, count, min, max, first, last. Window n starts at
    origin_ms + n * width_ms. NaN is left out."""

    width_ms: int
    aggregates: Sequence[str]
    origin_ms: int = 0

    def to_message(self) -> Any:
        """Returns the message. ValueError for an unknown aggregate."""
        unknown = set(self.aggregates) - set(_AGGREGATES)
        if unknown:
            raise ValueError(f"unknown aggregates {sorted(unknown)}; known are {sorted(_AGGREGATES)}")
        return scan_pb2.Windows(
            origin_ms=self.origin_ms, width_ms=self.width_ms, aggregates=[_AGGREGATES[a] for a in self.aggregates]
        )


@dataclass
class Chunk:
    """A stretch of one series, in order of time. With windows, times_ms has their starts, and the columns that were
    asked for are there instead of values."""

    series: Series
    times_ms: List[int]
    values: List[float] = field(default_factory=list)
    sums: List[float] = field(default_factory=list)
    counts: List[int] = field(default_factory=list)
    mins: List[float] = field(default_factory=list)
    maxs: List[float] = field(default_factory=list)
    firsts: List[float] = field(default_factory=list)
    lasts: List[float] = field(default_factory=list)

    @classmethod
    def of_message(cls, series: Series, columns: Any) -> Chunk:
        """Returns the chunk of a message."""
        return cls(
            series,
            list(accumulate(columns.time_deltas_ms)),
            list(columns.values),
            list(columns.sums),
            list(columns.counts),
            list(columns.mins),
            list(columns.maxs),
            list(columns.firsts),
            list(columns.lasts),
        )
