"""Apache's own reader, and what is exported at /api/v1/export/parquet."""

import io
import json
import math
import random
import struct
import urllib.error
import urllib.parse
import urllib.request

import pyarrow
import pyarrow.parquet
import pytest

TIME_S = 1_700_000_000


def write(http_address: str, lines: str) -> None:
    request = urllib.request.Request(f"http://{http_address}/write?precision=s", lines.encode())
    urllib.request.urlopen(request).close()


def export(http_address: str, match: str, **others: str) -> pyarrow.parquet.ParquetFile:
    query = urllib.parse.urlencode({"match[]": match, **others})
    with urllib.request.urlopen(f"http://{http_address}/api/v1/export/parquet?{query}") as response:
        assert response.headers["Content-Type"] == "application/vnd.apache.parquet"
        return pyarrow.parquet.ParquetFile(io.BytesIO(response.read()))


def test_types_and_values(http_address: str) -> None:
    values = {("a", i): i / 8 for i in range(300)} | {("ü b", i): -i * 1e100 for i in range(300)}
    write(http_address, "".join(f"parquet_types,host={h.replace(' ', chr(92) + ' ')} value={v} {TIME_S + i}\n" for (h, i), v in values.items()))
    write(http_address, f"parquet_types load=1 {TIME_S}")
    table = export(http_address, "parquet_types", columns="host").read()
    text = pyarrow.string()
    tags_type = table.schema.field("tags").type
    assert (tags_type.key_type, tags_type.item_type) == (text, text)
    assert [(f.name, f.type, f.nullable) for f in table.schema] == [
        ("host", text, True),
        ("metric", text, False),
        ("tags", tags_type, False),
        ("time", pyarrow.timestamp("ms", tz="UTC"), False),
        ("value", pyarrow.float64(), False),
    ]
    got = {}
    for row in table.to_pylist():
        assert row["metric"] == "parquet_types"
        tags = dict(row["tags"])
        assert tags.get("host") == row["host"]
        if row["host"] is None:
            assert tags == {"_field": "load"}
            continue
        got[row["host"], round(row["time"].timestamp() - TIME_S)] = row["value"]
    assert got == values and table.num_rows == len(values) + 1


def test_staleness_marker_keeps_its_bits(http_address: str) -> None:
    body = '{"metric":{"__name__":"parquet_stale"},"values":[null,"NaN"],"timestamps":[1700000000000,1700000001000]}\n'
    urllib.request.urlopen(f"http://{http_address}/api/v1/import", body.encode()).close()
    stale, other = export(http_address, "parquet_stale").read().column("value").to_pylist()
    assert struct.pack(">d", stale).hex() == "7ff0000000000002" and math.isnan(other)


def test_filters_find_what_is_behind_nans(http_address: str) -> None:
    rows = 20_000  # the first page of values has nothing but NaN, of which no statistics can tell
    values = ["NaN" if i < rows // 2 else i for i in range(rows)]
    line = {"metric": {"__name__": "parquet_nans"}, "values": values, "timestamps": [TIME_S * 1000 + i for i in range(rows)]}
    for first in range(0, rows, 1_000):
        part = {**line, **{name: line[name][first : first + 1_000] for name in ("values", "timestamps")}}
        urllib.request.urlopen(f"http://{http_address}/api/v1/import", json.dumps(part).encode()).close()
    query = urllib.parse.urlencode({"match[]": "parquet_nans"})
    with urllib.request.urlopen(f"http://{http_address}/api/v1/export/parquet?{query}") as response:
        file = response.read()
    for filters, want in (([("value", ">=", rows - 10)], 10), ([("value", "<", rows // 2 + 7)], 7), (None, rows)):
        assert pyarrow.parquet.read_table(io.BytesIO(file), filters=filters).num_rows == want


def test_many_row_groups(http_address: str) -> None:
    rows = 150_000
    random.seed(1)
    values = [random.random() for _ in range(rows)]
    write(http_address, "".join(f"parquet_long value={v!r} {TIME_S + i}\n" for i, v in enumerate(values)))
    file = export(http_address, "parquet_long")
    assert file.num_row_groups >= 2
    assert all(file.metadata.row_group(i).num_rows <= 122_880 for i in range(file.num_row_groups))
    assert file.read().column("value").to_pylist() == values


def test_nothing_found_is_a_file(http_address: str) -> None:
    assert export(http_address, "parquet_nothing").read().num_rows == 0


def test_columns_that_cannot_be(http_address: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        export(http_address, "parquet_nothing", columns="time")
