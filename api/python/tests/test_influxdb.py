"""InfluxData's client for InfluxDB 2: buckets, organizations, writes."""

import json
import urllib.parse
import urllib.request

import pytest
from influxdb_client import BucketRetentionRules, InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException


@pytest.fixture()
def influx(http_address: str):
    with InfluxDBClient(url=f"http://{http_address}", token="none", org="ours") as client:
        yield client


def query(http_address: str, database: str, text: str) -> list:
    parameters = urllib.parse.urlencode({"db": database, "q": text, "epoch": "s"})
    with urllib.request.urlopen(f"http://{http_address}/query?{parameters}") as response:
        return json.load(response)["results"][0].get("series", [])


def test_bucket_from_creation_to_end(influx: InfluxDBClient, http_address: str) -> None:
    buckets = influx.buckets_api()
    assert buckets.find_bucket_by_name("influx_made") is None
    made = buckets.create_bucket(bucket_name="influx_made")
    assert made.name == "influx_made" and made.type == "user" and made.retention_rules == []
    assert buckets.find_bucket_by_name("influx_made").id == made.id
    assert buckets.find_bucket_by_id(made.id).name == "influx_made"
    with pytest.raises(ApiException, match="already exists") as again:
        buckets.create_bucket(bucket_name="influx_made")
    assert again.value.status == 422

    with influx.write_api(write_options=SYNCHRONOUS) as writer:
        writer.write(bucket="influx_made", record="m,host=a value=1.5,on=true 1700000000", write_precision="s")
    assert query(http_address, "influx_made", "SELECT value, \"on\" FROM m")[0]["values"] == [[1700000000, 1.5, 1]]

    buckets.delete_bucket(made)
    assert buckets.find_bucket_by_name("influx_made") is None
    assert query(http_address, "influx_made", "SELECT value FROM m") == []
    with pytest.raises(ApiException) as gone:
        buckets.delete_bucket(made)
    assert gone.value.status == 404 and json.loads(gone.value.body)["code"] == "not found"


def test_pages_of_buckets(influx: InfluxDBClient) -> None:
    buckets = influx.buckets_api()
    made = [buckets.create_bucket(bucket_name=f"influx_page_{i:02}") for i in range(25)]
    try:
        assert len(buckets.find_buckets().buckets) == 20
        listed = [b.name for b in buckets.find_buckets_iter(limit=7)]
        assert len(listed) == len(set(listed)) and {b.name for b in made} | {"default"} <= set(listed)
    finally:
        for b in made:
            buckets.delete_bucket(b)


def test_what_cannot_be(influx: InfluxDBClient) -> None:
    buckets = influx.buckets_api()
    with pytest.raises(ApiException, match="databases-file") as kept:
        buckets.create_bucket(bucket_name="influx_kept", retention_rules=BucketRetentionRules(type="expire", every_seconds=3600))
    assert kept.value.status == 400 and buckets.find_bucket_by_name("influx_kept") is None
    with pytest.raises(ApiException, match="cannot be dropped") as default:
        buckets.delete_bucket(buckets.find_bucket_by_name("default"))
    assert default.value.status == 403


def test_organizations(influx: InfluxDBClient) -> None:
    organizations = influx.organizations_api()
    (ours,) = organizations.find_organizations(org="ours")
    assert ours.name == "ours" and organizations.find_organization(ours.id).id == ours.id
    with pytest.raises(ApiException, match="every name means it") as made:
        organizations.create_organization(name="theirs")
    assert made.value.status == 422
    with pytest.raises(ApiException, match="delete its buckets") as dropped:
        organizations.delete_organization(ours.id)
    assert dropped.value.status == 403
