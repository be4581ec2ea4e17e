"""The writer: gathers samples and sends them from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Deque, List, Optional, Protocol

from tickmesh import errors
from tickmesh.batch import BYTES_MAX, POINTS_MAX, Batch, Session
from tickmesh.model import Series

_ERRORS_KEPT = 16


class BatchWriter(Protocol):
    """What a Writer needs of a Client."""

    def write_batch(self, batch: Batch, session: Session) -> List[errors.RefusedSeries]:
        """Writes a batch and returns what is refused for good. Raises what its last attempt failed with."""


class Writer:
    """Gathers samples into batches and sends them one after the other, so that of two samples with one series and time
    the later one counts. For any number of threads. Client.writer makes it."""

    def __init__(
        self,
        client: BatchWriter,
        batch_points: int,
        batch_bytes: int,
        batch_delay: float,
        buffer_points: int,
        fail_when_full: bool,
    ) -> None:
        if not 1 <= batch_points <= POINTS_MAX or not 1 <= batch_bytes <= BYTES_MAX or buffer_points < 1 or batch_delay < 0:
            raise ValueError(f"batch_points is 1 to {POINTS_MAX}, batch_bytes 1 to {BYTES_MAX}, buffer_points at least 1")
        self._client, self._session = client, Session()
        self._batch_points, self._batch_bytes, self._batch_delay = batch_points, batch_bytes, batch_delay
        self._buffer_points, self._fail_when_full = buffer_points, fail_when_full
        self._changed = threading.Condition()
        self._gathered = Batch()
        self._gathered_since = 0.0
        self._queue: Deque[Batch] = deque()
        self._points = 0  # gathered, in the queue and on their way
        self._batches = 0  # in the queue and on their way
        self._closed = False
        self._lost_points, self._lost_total = 0, 0
        self._lost: List[errors.TickmeshError] = []
        self._thread = threading.Thread(target=self._send, name="tickmesh-writer", daemon=True)
        self._thread.start()

    def append(self, series: Series, time_ms: int, value: float, timeout: Optional[float] = None) -> None:
        """Takes a sample. Waits while the buffer is full, up to timeout, then raises BufferFull; at once with
        fail_when_full. ValueError for a time out of range, Closed."""
        with self._changed:
            if self._points >= self._buffer_points:
                self._submit()
                room = not self._fail_when_full and self._changed.wait_for(
                    lambda: self._points < self._buffer_points or self._closed, timeout
                )
                if not room:
                    raise errors.BufferFull(f"{self._points} samples wait to be written")
            if self._closed:
                raise errors.Closed("the writer is closed")
            if self._gathered and self._gathered.bytes + self._gathered.cost(series) > self._batch_bytes:
                self._submit()
            if not self._gathered:
                self._gathered_since = time.monotonic()
                self._changed.notify_all()
            self._gathered.add(series, time_ms, value)
            self._points += 1
            if len(self._gathered) >= self._batch_points:
                self._submit()

    def _submit(self) -> None:
        """Hands what is gathered to the thread. With the lock."""
        if self._gathered:
            self._queue.append(self._gathered)
            self._batches += 1
            self._gathered = Batch()
            self._changed.notify_all()

    def _next(self) -> Optional[Batch]:
        """Waits for a batch; None: the writer is closed, and everything is sent."""
        with self._changed:
            while not self._queue:
                if self._closed:
                    return None
                if not self._gathered:
                    self._changed.wait()
                    continue
                left = self._gathered_since + self._batch_delay - time.monotonic()
                if left <= 0:
                    self._submit()
                else:
                    self._changed.wait(left)
            return self._queue.popleft()

    def _send(self) -> None:
        batch = self._next()
        while batch is not None:
            points = len(batch)
            try:
                for refused in self._client.write_batch(batch, self._session):
                    self._lose(refused.points, refused)
            except errors.TickmeshError as error:
                self._lose(points, error)
            with self._changed:
                self._points -= points
                self._batches -= 1
                self._changed.notify_all()
            batch = self._next()

    def _lose(self, points: int, error: errors.TickmeshError) -> None:
        with self._changed:
            self._lost_points += points
            self._lost_total += 1
            if len(self._lost) < _ERRORS_KEPT:
                self._lost.append(error)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Sends what is gathered and waits until every sample that was appended before is written or given up.
        WriteError when some were given up since the last flush, DeadlineExceeded after timeout seconds."""
        with self._changed:
            self._submit()
            if not self._changed.wait_for(lambda: self._batches == 0, timeout):
                raise errors.DeadlineExceeded(f"{self._points} samples are not written yet")
            self._tell()

    def _tell(self) -> None:
        if self._lost_total:
            error = errors.WriteError(self._lost_points, self._lost, self._lost_total)
            self._lost_points, self._lost_total, self._lost = 0, 0, []
            raise error

    def close(self) -> None:
        """Takes no more samples, sends what it holds and waits for that, each batch for at most the client's
        write_timeout. WriteError as of flush."""
        with self._changed:
            self._submit()
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        with self._changed:
            self._tell()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
