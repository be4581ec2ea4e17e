"""The client: endpoints, attempts, calls."""

from __future__ import annotations

import base64
import ipaddress
import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

import grpc

from tickmesh import errors
from tickmesh.batch import ALL, BYTES_MAX, MAJORITY, POINTS_MAX, Batch, Session
from tickmesh.model import Chunk, Sample, Selector, Series, Windows, decode, encode
from tickmesh.v1 import cluster_pb2, cluster_pb2_grpc, query_pb2, query_pb2_grpc, scan_pb2, write_pb2, write_pb2_grpc
from tickmesh.writer import Writer

_API_LEVEL = 1
_MESSAGE_BYTES_MAX = 32 << 20
_REST_MIN, _REST_MAX = 0.1, 5.0
_DELAY_MIN, _DELAY_MAX = 0.02, 2.0
_RIGHTS = {
    "none": cluster_pb2.ACCESS_RIGHT_UNSPECIFIED,
    "read": cluster_pb2.ACCESS_RIGHT_READ,
    "write": cluster_pb2.ACCESS_RIGHT_WRITE,
    "admin": cluster_pb2.ACCESS_RIGHT_ADMIN,
}

T = TypeVar("T")


@dataclass(frozen=True)
class TLS:
    """PEM files. Without ca the system's CAs count; cert and key, together, are shown to servers that ask."""

    ca: Optional[str] = None
    cert: Optional[str] = None
    key: Optional[str] = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files."""
        read: Callable[[Optional[str]], Optional[bytes]] = lambda name: Path(name).read_bytes() if name else None
        return grpc.ssl_channel_credentials(read(self.ca), read(self.key), read(self.cert))


class _CallDetails(NamedTuple):
    """What gRPC calls ClientCallDetails, which is an interface only."""

    method: str
    timeout: Optional[float]
    metadata: Any
    credentials: Any
    wait_for_ready: Any
    compression: Any


class _Caller(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
    grpc.StreamStreamClientInterceptor,  # type: ignore[misc]
):
    """Shows the server who calls, with each call."""

    def __init__(self, authorization: Callable[[], str]) -> None:
        self._authorization = authorization

    def _with(self, details: Any) -> _CallDetails:
        metadata = [*(details.metadata or ()), ("authorization", self._authorization())]
        return _CallDetails(details.method, details.timeout, metadata, details.credentials, details.wait_for_ready, details.compression)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with(details), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with(details), request)

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        return continuation(self._with(details), requests)


def _authorization(token: Union[str, Callable[[], str], None], user: Optional[str], password: str) -> Optional[Callable[[], str]]:
    """Returns what says who calls, or None when nothing does."""
    if token is not None and user is not None:
        raise ValueError("token and user: there can be one")
    if callable(token):
        source = token
        return lambda: "Bearer " + source().strip()
    if token is not None:
        value = "Bearer " + token.strip()
        return lambda: value
    if user is not None:
        if ":" in user:
            raise ValueError("the user's name has a colon")
        basic = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        return lambda: basic
    return None


def _on_loopback(address: str) -> bool:
    """Says whether an address, host:port, is of this machine alone."""
    host = address.rsplit(":", 1)[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def pause_of(delay: float, retry_after: float) -> float:
    """Draws a wait from the upper half of a delay, in seconds; at least what the server asks for, up to _DELAY_MAX."""
    return max(delay * random.uniform(0.5, 1), min(retry_after, _DELAY_MAX))


class _Endpoint:
    """One router."""

    def __init__(self, address: str, tls: Optional[TLS], authorization: Optional[Callable[[], str]] = None) -> None:
        options = [
            ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_timeout_ms", 3_000),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 1_000),
        ]
        if tls is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            self.channel = grpc.secure_channel(address, tls.credentials(), options)
        calls = self.channel
        if authorization is not None:
            calls = grpc.intercept_channel(self.channel, _Caller(authorization))
        self.write = write_pb2_grpc.WriteServiceStub(calls)  # type: ignore[no-untyped-call]
        self.query = query_pb2_grpc.QueryServiceStub(calls)  # type: ignore[no-untyped-call]
        self.cluster = cluster_pb2_grpc.ClusterServiceStub(calls)  # type: ignore[no-untyped-call]
        self.failures = 0
        self.rests_to = 0.0
        self.checked = False

    def told(self, error: Optional[errors.TickmeshError]) -> None:
        """Notes how a call ended: an endpoint that fails is left alone for a while that grows."""
        if isinstance(error, (errors.Unavailable, errors.DeadlineExceeded)):
            self.rests_to = time.monotonic() + min(_REST_MIN * 2 ** min(self.failures, 10), _REST_MAX)
            self.failures += 1
        else:
            self.failures, self.rests_to = 0, 0.0

    def check(self, timeout: float) -> None:
        """Asks once whether client and server go together."""
        if not self.checked:
            request = cluster_pb2.GetServerInfoRequest(client="tickmesh-python", api_level=_API_LEVEL)
            self.cluster.GetServerInfo(request, timeout=timeout)
            self.checked = True


class Client:
    """A connection to a cluster, for any number of threads. Times are in seconds where not said otherwise."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: Optional[TLS] = None,
        token: Union[str, Callable[[], str], None] = None,
        user: Optional[str] = None,
        password: str = "",
        attempt_timeout: float = 10.0,
        write_timeout: float = 60.0,
        call_timeout: float = 30.0,
        write_level_all: bool = False,
        insecure_credentials: bool = False,
    ) -> None:
        """endpoints are the gRPC addresses, host:port, of routers or of one standalone server. With write_level_all a
        write waits for every full voter of its shards, not only for a majority. A batch that one of them does not have
        within write_timeout seconds ends with Unavailable, though it is written and will not be undone. A token (or what
        gives it, for one that is rotated), or user and password, say who calls; without TLS they are not sent
        beyond the loopback, where everybody on the way could read them, unless insecure_credentials is set."""
        if not endpoints:
            raise ValueError("no endpoints")
        authorization = _authorization(token, user, password)
        if authorization is not None and tls is None and not insecure_credentials:
            for address in endpoints:
                if not _on_loopback(address):
                    raise ValueError(
                        f"a token or password would cross the network to {address} for everybody to read: "
                        "use tls, or allow it with insecure_credentials=True"
                    )
        self._endpoints = [_Endpoint(address, tls, authorization) for address in endpoints]
        self._next = random.randrange(len(endpoints))
        self._lock = threading.Lock()
        self._session = Session()
        self._closed = threading.Event()
        self._level = ALL if write_level_all else MAJORITY
        self._attempt_timeout, self._write_timeout, self._call_timeout = attempt_timeout, write_timeout, call_timeout

    def close(self) -> None:
        """Ends calls that run and closes the connections. Close writers before."""
        self._closed.set()
        for endpoint in self._endpoints:
            endpoint.channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pick(self) -> _Endpoint:
        with self._lock:
            first = self._next
            self._next = (first + 1) % len(self._endpoints)
        turn = self._endpoints[first:] + self._endpoints[:first]
        now = time.monotonic()
        return next((e for e in turn if e.rests_to <= now), min(turn, key=lambda e: e.rests_to))

    def _wait(self, delay: float, error: errors.TickmeshError, deadline: float) -> float:
        """Waits between attempts and returns the next delay. Raises error when the time would be over."""
        pause = pause_of(delay, error.retry_after_ms / 1000)
        if time.monotonic() + pause > deadline:
            raise error
        if self._closed.wait(pause):
            raise errors.Closed("the client is closed") from error
        return min(2 * delay, _DELAY_MAX)

    def _call(self, attempt: Callable[[_Endpoint, float], T], timeout: float) -> T:
        """Makes attempts, each with another endpoint, until one succeeds, one fails in a way that stays, or the time
        is over."""
        deadline, delay = time.monotonic() + timeout, _DELAY_MIN
        while True:
            if self._closed.is_set():
                raise errors.Closed("the client is closed")
            endpoint = self._pick()
            try:
                left = max(0.001, min(self._attempt_timeout, deadline - time.monotonic()))
                endpoint.check(left)
                result = attempt(endpoint, left)
                endpoint.told(None)
                return result
            except grpc.RpcError as broken:
                error = errors.of_call(broken)
            except ValueError:
                if not self._closed.is_set():  # gRPC's word for a closed channel
                    raise
                raise errors.Closed("the client is closed") from None
            endpoint.told(error)
            if not error.may_pass:
                raise error
            delay = self._wait(delay, error, deadline)

    # Writes.

    def write(self, samples: Iterable[Union[Sample, Tuple[Series, int, float]]]) -> None:
        """Writes samples, (series, time_ms, value), and waits for the answer; of equal series and time the last one
        counts. Raises what the first batch that failed ended with; those behind it are not sent. WriteError when the
        server refused series."""
        batch, refused = Batch(), []
        for series, time_ms, value in samples:
            if batch and (len(batch) >= POINTS_MAX or batch.bytes + batch.cost(series) > BYTES_MAX):
                refused += self.write_batch(batch, self._session)
                batch = Batch()
            batch.add(series, time_ms, value)
        if batch:
            refused += self.write_batch(batch, self._session)
        if refused:
            raise errors.WriteError(sum(r.points for r in refused), list(refused), len(refused))

    def write_batch(self, batch: Batch, session: Session) -> List[errors.RefusedSeries]:
        """Writes a batch, repeated with its id; what is refused for now follows in batches of its own. For Writer."""
        refused: List[errors.RefusedSeries] = []
        deadline, delay = time.monotonic() + self._write_timeout, _DELAY_MIN
        rest: Optional[Batch] = batch
        while rest is not None:
            counter = session.take()
            try:
                request = write_pb2.WriteRequest(batch=rest.to_message(session.number, counter, self._level))
                response = self._call(
                    lambda e, left: e.write.Write(request, timeout=left), max(0.0, deadline - time.monotonic())
                )
            finally:
                session.give(counter)
            if response.result.level != self._level:
                raise errors.VersionMismatch("the server does not know the level of the write; it is written by a majority")
            rest, why, forever = rest.refusals(response.result)
            refused += forever
            if rest is not None and why is not None:
                delay = self._wait(delay, why, deadline)
        return refused

    def writer(
        self,
        *,
        batch_points: int = 10_000,
        batch_bytes: int = 1 << 20,
        batch_delay: float = 1.0,
        buffer_points: int = 100_000,
        fail_when_full: bool = False,
    ) -> Writer:
        """Returns a Writer, which gathers samples into batches and sends them one after the other."""
        return Writer(self, batch_points, batch_bytes, batch_delay, buffer_points, fail_when_full)

    # Queries.

    def _stream(self, begin: Callable[[_Endpoint, Optional[float]], Any], timeout: Optional[float]) -> Iterator[Any]:
        """Returns the messages of an answer; until the first one it is tried again elsewhere."""
        whole = self._call_timeout if timeout is None else timeout
        ended = object()

        def first(endpoint: _Endpoint, _: float) -> Tuple[Any, Any]:
            call = begin(endpoint, timeout)
            return call, next(call, ended)

        call, message = self._call(first, whole)
        try:
            while message is not ended:
                yield message
                message = next(call, ended)
        except grpc.RpcError as broken:
            raise errors.of_call(broken) from None
        finally:
            call.cancel()

    def query(
        self,
        selector: Selector,
        from_ms: int,
        to_ms: int,
        *,
        windows: Optional[Windows] = None,
        series_max: int = 0,
        samples_max: int = 0,
        staleness_max_ms: int = 0,
        allow_partial: bool = False,
        timeout: Optional[float] = None,
    ) -> Iterator[Chunk]:
        """Returns the samples in [from_ms, to_ms], or windows, of all series that match, as they arrive. An answer that
        ends without an exception is complete. With allow_partial, Partial is raised behind an answer that lacks
        shards."""
        request = query_pb2.ScanRequest(
            selector=selector.to_message(),
            from_ms=from_ms,
            to_ms=to_ms,
            windows=windows.to_message() if windows else None,
            limits=scan_pb2.ScanLimits(series_max=series_max, samples_max=samples_max),
            freshness=scan_pb2.Freshness(staleness_max_ms=staleness_max_ms),
            allow_partial=allow_partial,
        )
        series: Optional[Series] = None
        for message in self._stream(lambda e, left: e.query.Scan(request, timeout=left), timeout):
            for chunk in message.chunks:
                if chunk.HasField("series"):
                    series = Series.of_message(chunk.series)
                if series is None:
                    raise errors.Internal("a chunk without a series")
                yield Chunk.of_message(series, chunk.columns)
            if message.shards_missing:
                raise errors.Partial(list(message.shards_missing))

    def last(self, selector: Selector, from_ms: int = 0, *, timeout: Optional[float] = None) -> Iterator[Sample]:
        """Returns the newest sample, from from_ms on, of each series that matches."""
        request = query_pb2.LastRequest(selector=selector.to_message(), from_ms=from_ms)
        for message in self._stream(lambda e, left: e.query.Last(request, timeout=left), timeout):
            for point in message.points:
                yield Sample(Series.of_message(point.series), point.time_ms, point.value)

    def series(self, selector: Selector, limit: int = 0, *, timeout: Optional[float] = None) -> Iterator[Series]:
        """Returns the series that match, at most limit of them (0: all)."""
        request = query_pb2.ListSeriesRequest(selector=selector.to_message(), limit=limit)
        for message in self._stream(lambda e, left: e.query.ListSeries(request, timeout=left), timeout):
            for series in message.series:
                yield Series.of_message(series)

    def _names(self, kind: Any, database: str, metric: str, tag: str, prefix: str, limit: int) -> List[str]:
        request = query_pb2.ListNamesRequest(
            kind=kind,
            database=encode(database),
            metric=encode(metric),
            tag_name=encode(tag),
            prefix=encode(prefix),
            limit=limit,
        )
        messages = self._stream(lambda e, left: e.query.ListNames(request, timeout=left), self._call_timeout)
        return [decode(name) for message in messages for name in message.names]

    def databases(self, prefix: str = "", limit: int = 0) -> List[str]:
        """Returns the databases that have series."""
        return self._names(query_pb2.NAME_KIND_DATABASE, "", "", "", prefix, limit)

    def metrics(self, database: str = "", prefix: str = "", limit: int = 0) -> List[str]:
        """Returns the metrics of a database."""
        return self._names(query_pb2.NAME_KIND_METRIC, database, "", "", prefix, limit)

    def tag_names(self, metric: str = "", database: str = "", prefix: str = "", limit: int = 0) -> List[str]:
        """Returns the names of the tags of a metric, or of all metrics."""
        return self._names(query_pb2.NAME_KIND_TAG_NAME, database, metric, "", prefix, limit)

    def tag_values(self, tag: str = "", metric: str = "", database: str = "", prefix: str = "", limit: int = 0) -> List[str]:
        """Returns the values of a tag, or of all tags."""
        return self._names(query_pb2.NAME_KIND_TAG_VALUE, database, metric, tag, prefix, limit)

    def delete(self, selector: Selector, from_ms: int, to_ms: int) -> int:
        """Hides the samples in [from_ms, to_ms] that were written before, and returns the number of series that had some,
        or may have had."""
        request = query_pb2.DeleteRequest(selector=selector.to_message(), from_ms=from_ms, to_ms=to_ms)
        response = self._call(lambda e, left: e.query.Delete(request, timeout=left), self._call_timeout)
        return int(response.series_touched)

    # The cluster.

    def status(self, without_shards: bool = False) -> cluster_pb2.GetStatusResponse:
        """Tells of nodes, shards and moves; see proto/tickmesh/v1/cluster.proto."""
        request = cluster_pb2.GetStatusRequest(without_shards=without_shards)
        status: cluster_pb2.GetStatusResponse = self._call(
            lambda e, left: e.cluster.GetStatus(request, timeout=left), self._call_timeout
        )
        return status

    def drain(self, node: str, dry_run: bool = False) -> cluster_pb2.DrainResponse:
        """Moves everything away from a node, or only says what would be done. NotFound, Refused."""
        request = cluster_pb2.DrainRequest(node=node, dry_run=dry_run)
        plan: cluster_pb2.DrainResponse = self._call(
            lambda e, left: e.cluster.Drain(request, timeout=left), self._call_timeout
        )
        return plan

    def undrain(self, node: str) -> None:
        """Takes a drain back. NotFound."""
        request = cluster_pb2.UndrainRequest(node=node)
        self._call(lambda e, left: e.cluster.Undrain(request, timeout=left), self._call_timeout)

    # Tokens.

    def create_token(self, name: str, rights: Mapping[str, str], lifetime: float) -> cluster_pb2.CreateTokenResponse:
        """Makes a token, whose secret is told this once. Rights are none, read, write or admin by database, "*" for
        those without one of their own; the lifetime is in seconds. When the answer is lost, a token may have been made:
        tokens() tells. Invalid, Denied, Refused."""
        request = cluster_pb2.CreateTokenRequest(name=name, lifetime_ms=round(lifetime * 1000))
        for database, right in rights.items():
            if right not in _RIGHTS:
                raise errors.Invalid(f"the right {right!r}: expected one of {', '.join(_RIGHTS)}")
            request.rights.add(database=database, right=_RIGHTS[right])

        def once(endpoint: _Endpoint, left: float) -> Union[cluster_pb2.CreateTokenResponse, grpc.RpcError]:
            try:
                made: cluster_pb2.CreateTokenResponse = endpoint.cluster.CreateToken(request, timeout=left)
                return made
            except grpc.RpcError as broken:
                return broken  # a second attempt could make a second token

        made = self._call(once, self._call_timeout)
        if isinstance(made, grpc.RpcError):
            raise errors.of_call(made) from None
        return made

    def tokens(self) -> List[cluster_pb2.Token]:
        """All tokens, in the order in which they were made; nothing of them opens anything. Denied, Refused."""
        request = cluster_pb2.ListTokensRequest()
        listed: cluster_pb2.ListTokensResponse = self._call(
            lambda e, left: e.cluster.ListTokens(request, timeout=left), self._call_timeout
        )
        return list(listed.tokens)

    def revoke_token(self, id: str) -> cluster_pb2.Token:
        """Takes a token back for good, and all that were made with it. NotFound, Denied, Refused."""
        request = cluster_pb2.RevokeTokenRequest(id=id)
        revoked: cluster_pb2.RevokeTokenResponse = self._call(
            lambda e, left: e.cluster.RevokeToken(request, timeout=left), self._call_timeout
        )
        return revoked.token
