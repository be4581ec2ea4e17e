"""The server under test, which hack/scripts/python-test.sh has started."""

import os

import pytest

from tickmesh import Client


@pytest.fixture(scope="session")
def http_address() -> str:
    return os.environ["TICKMESH_TEST_HTTP"]


@pytest.fixture(scope="session")
def grpc_address() -> str:
    return os.environ["TICKMESH_TEST_GRPC"]


@pytest.fixture(scope="session")
def graphite_address() -> str:
    return os.environ["TICKMESH_TEST_GRAPHITE"]


@pytest.fixture()
def client(grpc_address: str):
    with Client([grpc_address]) as c:
        yield c
