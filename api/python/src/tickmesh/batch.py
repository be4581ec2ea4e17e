"""Batches: samples that are sent together, under one id."""

from __future__ import annotations

import secrets
import threading
from typing import Any, Dict, List, Optional, Set, Tuple

from tickmesh import errors
from tickmesh.model import TIME_MS_MAX, TIME_MS_MIN, Sample, Series
from tickmesh.v1 import write_pb2

MAJORITY = write_pb2.WRITE_LEVEL_UNSPECIFIED
ALL = write_pb2.WRITE_LEVEL_ALL

POINTS_MAX = 50_000
BYTES_MAX = 3 << 20

# Counters of batches without an answer are not further apart: what a server remembers of a session.
_COUNTER_WINDOW = 128

_SAMPLE_BYTES = 8 + 4 + 10


class Batch:
    """Gathers samples."""

    def __init__(self) -> None:
        self.series: Dict[Series, int] = {}
        self.handles: List[int] = []
        self.deltas: List[int] = []
        self.values: List[float] = []
        self.bytes = 0
        self._previous_ms = 0

    def __len__(self) -> int:
        return len(self.values)

    def cost(self, series: Series) -> int:
        """About how many bytes a sample would add, at most."""
        return _SAMPLE_BYTES if series in self.series else _SAMPLE_BYTES + series.message_bytes

    def add(self, series: Series, time_ms: int, value: float) -> None:
        """Adds a sample. ValueError for a time out of range."""
        if not TIME_MS_MIN <= time_ms <= TIME_MS_MAX:
            raise ValueError(f"time {time_ms} ms is out of range")
        self.bytes += self.cost(series)
        self.handles.append(self.series.setdefault(series, len(self.series)))
        self.deltas.append(time_ms - self._previous_ms)
        self.values.append(value)
        self._previous_ms = time_ms

    def to_message(self, session: int, counter: int, level: write_pb2.WriteLevel = MAJORITY) -> Any:
        """Returns the message."""
        return write_pb2.Batch(
            level=level,
            batch_id=write_pb2.BatchId(session=session, counter=counter),
            definitions=[write_pb2.SeriesHandle(handle=n, series=s.to_message()) for s, n in self.series.items()],
            handles=self.handles,
            time_deltas_ms=self.deltas,
            values=self.values,
        )

    def samples_of(self, handles: Set[int]) -> List[Sample]:
        """Returns the samples of some series."""
        series = list(self.series)
        found, time_ms = [], 0
        for handle, delta, value in zip(self.handles, self.deltas, self.values):
            time_ms += delta
            if handle in handles:
                found.append(Sample(series[handle], time_ms, value))
        return found

    def refusals(self, result: Any) -> Tuple[Optional[Batch], Optional[errors.TickmeshError], List[errors.RefusedSeries]]:
        """Returns what a server has refused for now, to be sent again as a batch of its own, with why; and what it has
        refused for ever."""
        if not result.refused:
            return None, None, []
        series = list(self.series)
        again: Set[int] = set()
        why: Optional[errors.TickmeshError] = None
        refused = []
        for r in result.refused:
            error = errors.of_message(r.error)
            if error.retry_after_ms > 0:
                again.add(r.handle)
                why = error
            else:
                refused.append(errors.RefusedSeries(series[r.handle], len(self.samples_of({r.handle})), error))
        if not again:
            return None, None, refused
        rest = Batch()
        for sample in self.samples_of(again):
            rest.add(*sample)
        return rest, why, refused


class Session:
    """Numbers batches. The session is drawn once."""

    def __init__(self) -> None:
        self.number = secrets.randbits(64) or 1
        self._last = 0
        self._open: Set[int] = set()
        self._changed = threading.Condition()

    def may_take(self) -> bool:
        """Says whether the next counter is near enough to the oldest one without an answer."""
        return not self._open or self._last + 1 - min(self._open) < _COUNTER_WINDOW

    def take(self) -> int:
        """Returns the next counter, once it is near enough to the oldest one without an answer."""
        with self._changed:
            self._changed.wait_for(self.may_take)
            self._last += 1
            self._open.add(self._last)
            return self._last

    def give(self, counter: int) -> None:
        """Says that a batch has its answer, or is given up."""
        with self._changed:
            self._open.discard(counter)
            self._changed.notify_all()
