"""Clients of Graphite, and pickles as carbon sends them, against the port of --graphite-addr."""

import json
import pickle
import socket
import struct
import time
import urllib.parse
import urllib.request

import graphyte
import pytest

TIME_S = 1_700_000_000


def samples(http_address: str, metric: str) -> dict:
    """Returns the samples of each series of a metric: (labels) -> [[time, value], ...]."""
    query = urllib.parse.urlencode({"query": metric + "[10y]", "time": TIME_S + 3600})
    with urllib.request.urlopen(f"http://{http_address}/api/v1/query?{query}") as response:
        result = json.load(response)["data"]["result"]
    labels = [tuple(sorted((k, v) for k, v in s["metric"].items() if k != "__name__")) for s in result]
    return dict(zip(labels, [[[t, float(v)] for t, v in s["values"]] for s in result]))


def eventually(http_address: str, metric: str, want: dict) -> None:
    """Waits for samples: nothing is answered to those who send them."""
    for _ in range(300):
        got = samples(http_address, metric)
        if got == want:
            return
        time.sleep(0.1)
    assert got == want


def test_graphyte(http_address: str, graphite_address: str) -> None:
    host, port = graphite_address.rsplit(":", 1)
    sender = graphyte.Sender(host, port=int(port), prefix="graphyte", raise_send_errors=True)
    sender.send("load", 0.5, timestamp=TIME_S, tags={"dc": "home"})
    sender.send("load", 7, timestamp=TIME_S + 60)
    sender.stop()
    eventually(
        http_address,
        '{__name__="graphyte.load"}',
        {(("dc", "home"),): [[TIME_S, 0.5]], (): [[TIME_S + 60, 7.0]]},
    )


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(http_address: str, graphite_address: str, protocol: int) -> None:
    host, port = graphite_address.rsplit(":", 1)
    metric = f"pickled{protocol}"
    points = [(f"{metric};n={i % 3}", (TIME_S + i, i / 4)) for i in range(1500)]
    with socket.create_connection((host, int(port))) as connection:
        for first in range(0, len(points), 500):  # carbon's MAX_DATAPOINTS_PER_MESSAGE
            payload = pickle.dumps(points[first : first + 500], protocol=protocol)
            connection.sendall(struct.pack("!L", len(payload)) + payload)
    want = {(("n", str(n)),): [[TIME_S + i, i / 4] for i in range(n, 1500, 3)] for n in range(3)}
    eventually(http_address, metric, want)
