from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.fake_gateway import TOKEN, FakeGateway, open_fake_gateway
from tests.cli.person import Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture
def gateway(person: Person) -> Generator[FakeGateway]:
    """A gateway on the person's port, with the person's token."""
    with open_fake_gateway() as fake:
        person.port = fake.port
        person.environ |= {
            "OPENCLAW_GATEWAY_PORT": str(fake.port),
            "OPENCLAW_GATEWAY_TOKEN": TOKEN,
        }
        yield fake
