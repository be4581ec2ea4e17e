"""Writes the pickles beside it, as Python's clients of carbon make them.

    cd api/parse/testdata/pickles && python3 make.py
"""
import pickle
import struct

POINTS = [
    ("servers.a.cpu.load", (1700000000, 0.64)),
    ("servers.a.cpu.load", (1700000060.5, 7)),
    ("servers.b.net;dc=home;rack=7", (1700000000, -12.25)),
    ("größe.ö", (1700000000, 2**40)),
    ("texts", ("1700000000", "3.5")),
    ("lists", [1700000000, True]),
    ("now", (-1, 1e300)),
    ("nan", (1700000000, float("nan"))),
    ("infinite", (1700000000, float("inf"))),
    ("none", (1700000000, None)),
    (7, (1700000000, 7)),
    ("short", (1700000000,)),
]
MANY = [("many.%d" % i, (1700000000 + i, i / 4)) for i in range(1100)]


def frame(points, protocol):
    payload = pickle.dumps(points, protocol=protocol)
    return struct.pack("!L", len(payload)) + payload


for protocol in range(6):
    plain = [p for p in POINTS if protocol > 0 or p[0] != "größe.ö"]
    with open("protocol%d.bin" % protocol, "wb") as f:
        f.write(frame(plain, protocol) + frame(tuple(plain), protocol) + frame(MANY, protocol))

# What clients without Python write by hand (Dropwizard's PickledGraphite): texts, longs, and LIST first.
with open("byhand.bin", "wb") as f:
    payload = b"(l(S'a.b'\n(L1700000000L\nS'1.5'\ntta(S'a.c'\n(L1700000001L\nS'2'\ntta."
    assert pickle.loads(payload) == [("a.b", (1700000000, "1.5")), ("a.c", (1700000001, "2"))]
    f.write(struct.pack("!L", len(payload)) + payload)


class Evil:
    def __reduce__(self):
        return (print, ("never",))


with open("evil.bin", "wb") as f:
    f.write(frame([("a", (1700000000, Evil()))], 2) + frame([("a", (1700000000, 1))], 2))
