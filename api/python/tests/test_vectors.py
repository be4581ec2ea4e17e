"""What the clients of all languages do alike: proto/vectors/client.json, which proto/README.md describes."""

import json
import threading
from concurrent import futures
from itertools import accumulate
from pathlib import Path
from typing import Any, Callable, Dict, List

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import status_pb2
from grpc import StatusCode

from tickmesh import Client, RefusedSeries, Series, TickmeshError, WriteError
from tickmesh import client as client_module
from tickmesh import errors
from tickmesh.batch import Session
from tickmesh.v1 import cluster_pb2, cluster_pb2_grpc, error_pb2, write_pb2, write_pb2_grpc

VECTORS = json.loads((Path(__file__).resolve().parents[3] / "proto/vectors/client.json").read_text())


def error_of(answer: Dict[str, Any]) -> error_pb2.Error:
    kind = error_pb2.ErrorKind.Value("ERROR_KIND_" + answer["error"])
    return error_pb2.Error(kind=kind, message=answer["error"], retry_after_ms=answer.get("retry_after_ms", 0))


class _Server(cluster_pb2_grpc.ClusterServiceServicer, write_pb2_grpc.WriteServiceServicer):
    def __init__(self, answers: List[Dict[str, Any]]) -> None:
        self.answers, self.received, self.sessions, self.ended = answers, [], set(), threading.Event()

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        return cluster_pb2.GetServerInfoResponse(api_level=1, api_level_min=1)

    def Write(self, request: Any, context: Any) -> Any:
        batch = request.batch
        names = {d.handle: d.series.metric.decode() for d in batch.definitions}
        samples = [[names[h], t, v] for h, t, v in zip(batch.handles, accumulate(batch.time_deltas_ms), batch.values)]
        number = len(self.received)
        self.received.append({"counter": batch.batch_id.counter, "samples": samples})
        self.sessions.add(batch.batch_id.session)
        answer = self.answers[number] if number < len(self.answers) else {"code": "DATA_LOSS"}
        if "silent" in answer:
            self.ended.wait(600)
        if "code" in answer:
            context.abort(StatusCode[answer["code"]], "of gRPC")
        if "error" in answer:
            detail = any_pb2.Any()
            detail.Pack(error_of(answer))
            status = status_pb2.Status(code=StatusCode.UNKNOWN.value[0], message=answer["error"], details=[detail])
            context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
            context.abort(StatusCode.UNKNOWN, answer["error"])
        refused = [
            write_pb2.RefusedSeries(handle=handle, error=error_of(answer["refused"][name]))
            for handle, name in names.items()
            if name in answer.get("refused", {})
        ]
        return write_pb2.WriteResponse(result=write_pb2.WriteResult(copies=1, refused=refused))


KINDS = {
    "INVALID": errors.Invalid,
    "READ_ONLY": errors.ReadOnly,
    "SERIES_LIMIT": errors.SeriesLimit,
    "BATCH_OLD": errors.BatchOld,
    "UNAUTHENTICATED": errors.Unauthenticated,
    "DENIED": errors.Denied,
    "INTERNAL": errors.Internal,
}
NAMES = {kind: name for name, kind in KINDS.items()}


def outcome_of(write: Callable[[], None]) -> Dict[str, Any]:
    try:
        write()
        return {}
    except TickmeshError as error:
        refused = {}
        for cause in error.errors if isinstance(error, WriteError) else [error]:
            if not isinstance(cause, RefusedSeries):
                return {"error": NAMES.get(type(cause), repr(cause))}
            refused[cause.series.metric] = {"points": cause.points, "error": NAMES[type(cause.why)]}
        return {"refused": refused}


@pytest.mark.parametrize("vector", VECTORS["retries"], ids=lambda v: v["name"])
@pytest.mark.parametrize("face", ["write", "writer"])
def test_retries(face: str, vector: Dict[str, Any]) -> None:
    own = _Server(vector["answers"])
    server = grpc.server(futures.ThreadPoolExecutor(4))
    cluster_pb2_grpc.add_ClusterServiceServicer_to_server(own, server)
    write_pb2_grpc.add_WriteServiceServicer_to_server(own, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        attempt_timeout = vector.get("attempt_timeout_ms", 600_000) / 1000
        with Client([f"127.0.0.1:{port}"], attempt_timeout=attempt_timeout, write_timeout=600) as client:
            writer = client.writer()

            def write(rows: List[Any]) -> None:
                samples = [(Series(metric), time_ms, value) for metric, time_ms, value in rows]
                if face == "write":
                    client.write(samples)
                    return
                for sample in samples:
                    writer.append(*sample)
                writer.flush()

            outcomes = [outcome_of(lambda rows=rows: write(rows)) for rows in vector["writes"]]
            writer.close()
        assert own.received == vector["received"]
        assert outcomes == vector["outcomes"]
        assert len(own.sessions) == 1 and 0 not in own.sessions
    finally:
        own.ended.set()
        server.stop(None)


def test_delays() -> None:
    for v in VECTORS["delays"]:
        assert (client_module._DELAY_MIN, client_module._DELAY_MAX) == (v["min_ms"] / 1000, v["max_ms"] / 1000)
        delay = client_module._DELAY_MIN
        for _ in range(v["failures"] - 1):
            delay = min(2 * delay, client_module._DELAY_MAX)
        for _ in range(100):
            drawn = client_module.pause_of(delay, v["retry_after_ms"] / 1000) * 1000
            assert v["least_ms"] - 1e-6 <= drawn <= v["most_ms"] + 1e-6


def test_window() -> None:
    for v in VECTORS["window"]:
        session = Session()
        for counter in range(1, v["last"] + 1):
            assert session.take() == counter
            if counter != v["oldest"]:
                session.give(counter)
        assert session.may_take() == v["may_take"]
        session.give(v["oldest"])
        assert session.take() == v["last"] + 1


def test_loopback() -> None:
    for address, want in VECTORS["loopback"].items():
        assert client_module._on_loopback(address) == want, address
