"""Tests against a started `tickmesh standalone`. Each uses a database of its own."""

import json
import math
import random
import struct
import subprocess
import threading
import urllib.request
import uuid
from collections import defaultdict
from pathlib import Path

import pytest

from tickmesh import (
    BufferFull,
    Client,
    Closed,
    DeadlineExceeded,
    Invalid,
    NotFound,
    QueryLimit,
    Refused,
    Selector,
    Series,
    Unavailable,
    Windows,
    WriteError,
    absent,
    equal,
    is_in,
    matches,
    not_equal,
    not_in,
    not_matches,
    present,
)

WHOLE = (-(2**61), 2**61 - 1)


@pytest.fixture()
def database() -> str:
    return "py-" + uuid.uuid4().hex


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def contents(client: Client, database: str) -> dict:
    found = defaultdict(dict)
    for chunk in client.query(Selector(None, database=database), *WHOLE):
        assert len(chunk.times_ms) == len(chunk.values)
        found[chunk.series].update(zip(chunk.times_ms, map(bits, chunk.values)))
    return dict(found)


def test_every_bit_comes_back(client, database):
    rnd = random.Random(7)
    names = ["a", "ä", "\\", ",", " ", "=", '"', "\n", "\udcff", "_field", "value", "x" * 100]
    want, samples = defaultdict(dict), []
    for _ in range(50):
        tags = {rnd.choice(names) + rnd.choice(names): rnd.choice(names) for _ in range(rnd.randrange(4))}
        series = Series(rnd.choice(names) + str(rnd.randrange(10)), tags, database)
        for _ in range(20):
            value = struct.unpack("<d", rnd.randbytes(8))[0]
            if rnd.random() < 0.5:
                value = rnd.choice([0.0, -0.0, math.inf, -math.inf, math.nan, 0.1, 5e-324, rnd.randrange(10**6) / 100])
            time_ms = rnd.randrange(-(10**12), 10**13)
            samples.append((series, time_ms, value))
            want[series][time_ms] = bits(value)
    client.write(samples)
    assert contents(client, database) == want


def test_writer_keeps_order(client, database):
    series = [Series("m", {"n": str(n)}, database) for n in range(5)]
    want = defaultdict(dict)
    rnd = random.Random(8)
    with client.writer(batch_points=7, batch_bytes=500) as writer:
        for i in range(2000):
            s, time_ms = rnd.choice(series), rnd.randrange(20)
            writer.append(s, time_ms, i)
            want[s][time_ms] = bits(i)
            if i % 500 == 0:
                writer.flush()
    assert contents(client, database) == want
    with pytest.raises(Closed):
        writer.append(series[0], 1, 1)


def test_writer_of_many_threads(client, database):
    writer = client.writer(batch_points=100, batch_delay=0.01, buffer_points=300)

    def fill(n: int) -> None:
        for i in range(1000):
            writer.append(Series("m", {"n": str(n)}, database), i, n)

    threads = [threading.Thread(target=fill, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    writer.close()
    found = contents(client, database)
    assert len(found) == 4 and all(len(values) == 1000 for values in found.values())


def test_batch_delay(client, database):
    series = Series("m", database=database)
    writer = client.writer(batch_delay=0.001)
    writer.append(series, 1, 1)
    for _ in range(10_000):
        if contents(client, database):
            break
    assert contents(client, database) == {series: {1: bits(1)}}
    writer.close()


def test_what_http_writes_and_reads(client, database, http_address):
    series = Series("cpu", {"host": "a", "_field": "idle"}, database)
    client.write([(series, 1_700_000_000_000, 0.25)])
    url = f"http://{http_address}/api/query?db={database}&start=1699999999&end=1700000009&m=sum:cpu"
    assert json.load(urllib.request.urlopen(url))[0]["dps"] == {"1700000000": 0.25}
    body = b"cpu,host=a idle=7 1700000001"
    urllib.request.urlopen(f"http://{http_address}/write?db={database}&precision=s", data=body).read()
    assert contents(client, database) == {series: {1_700_000_000_000: bits(0.25), 1_700_000_001_000: bits(7)}}


def test_queries(client, database):
    a = Series("cpu", {"host": "a", "zone": "x"}, database)
    b = Series("cpu", {"host": "b"}, database)
    client.write([(s, t * 1000, t + offset) for s, offset in ((a, 0), (b, 100)) for t in range(10)])

    def hosts(*matchers) -> set:
        return {s.tags["host"] for s in client.series(Selector("cpu", matchers, database))}

    assert hosts(equal("host", "a")) == {"a"}
    assert hosts(not_equal("host", "a")) == {"b"}
    assert hosts(is_in("host", ["a", "b", "c"])) == {"a", "b"}
    assert hosts(not_in("host", ["b"])) == {"a"}
    assert hosts(matches("host", "[bc]")) == {"b"}
    assert hosts(not_matches("host", "[bc]")) == {"a"}
    assert hosts(present("zone")) == {"a"}
    assert hosts(absent("zone")) == {"b"}
    assert hosts() == {"a", "b"}
    assert len(list(client.series(Selector("cpu", database=database), limit=1))) == 1

    everything = Windows(5000, ["sum", "count", "min", "max", "first", "last"])
    chunks = list(client.query(Selector("cpu", [equal("host", "a")], database), 1000, 9000, windows=everything))
    columns = [[x for c in chunks for x in getattr(c, name)] for name in ("times_ms", "sums", "counts", "mins", "maxs", "firsts", "lasts")]
    assert columns == [[0, 5000], [10, 35], [4, 5], [1, 5], [4, 9], [1, 5], [4, 9]]
    assert sum(len(c.values) for c in chunks) == 0

    newest = {s.series: (s.time_ms, s.value) for s in client.last(Selector("cpu", database=database))}
    assert newest == {a: (9000, 9), b: (9000, 109)}
    assert client.metrics(database) == ["cpu"]
    assert client.tag_names("cpu", database) == ["host", "zone"]
    assert client.tag_values("host", "cpu", database, prefix="b") == ["b"]
    assert database in client.databases(prefix="py-")

    assert client.delete(Selector("cpu", [equal("host", "b")], database), *WHOLE) == 1
    assert set(contents(client, database)) == {a}


def test_errors(client, database, grpc_address):
    series = Series("m", database=database)
    client.write([(series, t, 1.0) for t in range(10)])
    with pytest.raises(QueryLimit) as limit:
        list(client.query(Selector("m", database=database), 0, 9, samples_max=5))
    assert (limit.value.what, limit.value.limit) == ("samples", 5)
    with pytest.raises(Invalid):
        list(client.query(Selector("m", [matches("a", "(")], database), 0, 9))
    with pytest.raises(ValueError):
        client.write([(series, 2**62, 1.0)])
    with pytest.raises(ValueError):
        Series("")
    with pytest.raises(ValueError):
        Windows(1, ["median"]).to_message()
    long = Series("m", {"t": "x" * 10_000}, database)
    with pytest.raises(WriteError) as lost:
        client.write([(series, 100, 2.0), (long, 1, 1.0), (long, 2, 1.0)])
    assert lost.value.points == 2 and lost.value.errors[0].series == long
    assert isinstance(lost.value.errors[0].why, Invalid)
    assert contents(client, database)[series][100] == bits(2)
    with pytest.raises(NotFound):
        client.drain("no such node", dry_run=True)
    with Client([grpc_address]) as closed:
        pass
    with pytest.raises(Closed):
        closed.status()


def test_nobody_listens(database):
    with Client(["127.0.0.1:1"], write_timeout=0.2, call_timeout=0.2) as lonely:
        with pytest.raises((Unavailable, DeadlineExceeded)):
            lonely.write([(Series("m", database=database), 1, 1)])
        writer = lonely.writer(batch_points=1, buffer_points=1, fail_when_full=True)
        writer.append(Series("m", database=database), 1, 1)
        with pytest.raises(BufferFull):
            writer.append(Series("m", database=database), 2, 1)
        with pytest.raises(WriteError) as lost:
            writer.close()
        assert lost.value.points == 1


def test_another_router_answers(grpc_address, database):
    with Client(["127.0.0.1:1", grpc_address, "127.0.0.1:2"]) as client:
        for t in range(10):
            client.write([(Series("m", database=database), t, t)])
        assert len(contents(client, database)[Series("m", database=database)]) == 10


def test_status(client):
    status = client.status()
    assert status.cluster and len(status.nodes) >= 1 and len(status.shard_statuses) == status.shards
    node = status.nodes[0].node
    if len(status.nodes) == 1:
        with pytest.raises(Refused):
            client.drain(node)
    client.undrain(node)


def test_generated_code_is_what_the_proto_files_say(tmp_path):
    root = Path(__file__).resolve().parents[3]
    subprocess.run([root / "hack/scripts/python-generate.sh", tmp_path], check=True)
    made = {p.name: p.read_text() for p in (tmp_path / "tickmesh/v1").glob("*_pb2*.py*")}
    kept = {p.name: p.read_text() for p in (root / "api/python/src/tickmesh/v1").glob("*_pb2*.py*")}
    assert made == kept, "run hack/scripts/python-generate.sh"


def test_level_all(grpc_address, database):
    with Client([grpc_address], write_level_all=True) as client:
        with client.writer() as writer:
            writer.append(Series("m", database=database), 1, 2.5)
        assert contents(client, database) == {Series("m", database=database): {1: bits(2.5)}}
