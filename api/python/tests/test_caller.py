"""Who calls: tests against a server of their own that knows one token and one password."""

import base64
from concurrent import futures
from typing import Any, Iterator

import grpc
import pytest

from tickmesh import Client, Denied, Invalid, Unauthenticated, Unavailable
from tickmesh.v1 import cluster_pb2, cluster_pb2_grpc, query_pb2, query_pb2_grpc, write_pb2, write_pb2_grpc

TOKEN = "tickmesh_of-bob"
BASIC = "Basic " + base64.b64encode("ann:ann's: word".encode()).decode()


def _check(context: grpc.ServicerContext) -> None:
    shown = dict(context.invocation_metadata()).get("authorization")
    if shown == BASIC:
        return
    if shown != "Bearer " + TOKEN:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "authentication failed")


class _Server(cluster_pb2_grpc.ClusterServiceServicer, query_pb2_grpc.QueryServiceServicer, write_pb2_grpc.WriteServiceServicer):
    def GetServerInfo(self, request: Any, context: Any) -> Any:
        _check(context)
        return cluster_pb2.GetServerInfoResponse(api_level=1, api_level_min=1)

    def ListNames(self, request: Any, context: Any) -> Iterator[Any]:
        _check(context)
        yield query_pb2.ListNamesResponse(names=[b"a"])

    def Drain(self, request: Any, context: Any) -> Any:
        _check(context)
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "not this one")

    def CreateToken(self, request: Any, context: Any) -> Any:
        _check(context)
        self.created = getattr(self, "created", 0) + 1
        if request.name == "lost":
            context.abort(grpc.StatusCode.UNAVAILABLE, f"attempt {self.created}")
        return cluster_pb2.CreateTokenResponse(
            secret="tickmesh_s", token=cluster_pb2.Token(id="i", name=request.name, rights=request.rights, expires_ms=request.lifetime_ms)
        )

    def ListTokens(self, request: Any, context: Any) -> Any:
        _check(context)
        return cluster_pb2.ListTokensResponse(tokens=[cluster_pb2.Token(id="i")])

    def RevokeToken(self, request: Any, context: Any) -> Any:
        _check(context)
        return cluster_pb2.RevokeTokenResponse(token=cluster_pb2.Token(id=request.id, revoked_ms=1))

    def Write(self, request: Any, context: Any) -> Any:
        _check(context)
        return write_pb2.WriteResponse(result=write_pb2.WriteResult(level=request.batch.level))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    own = _Server()
    cluster_pb2_grpc.add_ClusterServiceServicer_to_server(own, server)
    query_pb2_grpc.add_QueryServiceServicer_to_server(own, server)
    write_pb2_grpc.add_WriteServiceServicer_to_server(own, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize("caller", [{"token": TOKEN}, {"token": lambda: TOKEN + "\n"}, {"user": "ann", "password": "ann's: word"}])
def test_known(address: str, caller: Any) -> None:
    with Client([address], **caller) as c:
        assert c.databases() == ["a"]
        with pytest.raises(Denied):
            c.drain("n1")


def test_tokens(address: str) -> None:
    with Client([address], token=TOKEN) as c:
        made = c.create_token("it", {"metrics": "write", "*": "none"}, 90)
        assert made.secret == "tickmesh_s" and made.token.expires_ms == 90_000
        assert {r.database: r.right for r in made.token.rights} == {"metrics": cluster_pb2.ACCESS_RIGHT_WRITE, "*": 0}
        with pytest.raises(Unavailable, match="attempt 2"):  # which might make another one each time
            c.create_token("lost", {"a": "read"}, 90)
        with pytest.raises(Invalid, match="none, read, write, admin"):
            c.create_token("it", {"a": "fly"}, 90)
        assert [t.id for t in c.tokens()] == ["i"]
        assert c.revoke_token("i").revoked_ms == 1


@pytest.mark.parametrize("caller", [{}, {"token": "x"}, {"user": "ann", "password": "x"}])
def test_unknown(address: str, caller: Any) -> None:
    with Client([address], **caller) as c:
        with pytest.raises(Unauthenticated):
            c.databases()


def test_contradictions() -> None:
    with pytest.raises(ValueError):
        Client(["127.0.0.1:1"], token="x", user="y")
    with pytest.raises(ValueError):
        Client(["127.0.0.1:1"], user="a:b")


@pytest.mark.parametrize("who", [{"token": "x"}, {"token": lambda: "x"}, {"user": "a", "password": "b"}])
def test_credentials_need_tls(who: Any) -> None:
    for address in ["127.0.0.1:1", "[::1]:1", "localhost:1"]:
        Client([address], **who).close()
    for address in ["10.0.0.1:1", "router:1", "localhost.example:1"]:
        with pytest.raises(ValueError, match="insecure_credentials"):
            Client(["127.0.0.1:1", address], **who)
        Client([address], insecure_credentials=True, **who).close()
        Client([address]).close()
