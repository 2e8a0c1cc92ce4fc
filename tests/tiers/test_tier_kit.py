"""The tier kit: it passes what is right, and each built-in fault is caught by its contract."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.tiers import base
from tierproof.properties import tier_factories
from tierproof.properties.cli import main
from tierproof.properties.contracts import TIER_CONTRACTS
from tierproof.properties.servers import RedisServer, SeaweedServer, Server
from tierproof.properties.tier_conformance import TierConformance
from tierproof.properties.tier_faults import FAULTS
from tierproof.properties.tier_specimen import Specimen
from tierproof.properties.tier_surroundings import (
    BucketMedia,
    DiskOutage,
    RedisMedia,
    ServerOutage,
    Surroundings,
)
from tierproof.properties.tiers_under_test import (
    CHECKS,
    NAMES,
    check_tier,
    chosen_tier,
)

from .conftest import started


class TestSpecimen(TierConformance):
    factory = Specimen


class TestMemoryTier(TierConformance):
    factory = staticmethod(tier_factories.memory)
    operations = 10_000


class TestFileTier(TierConformance):
    factory = staticmethod(tier_factories.files)
    operations = 10_000

    def surround(self, root: Path) -> Surroundings:
        return Surroundings(outage=DiskOutage())


class TestSlabTier(TierConformance):
    factory = staticmethod(tier_factories.slab)
    operations = 10_000

    def surround(self, root: Path) -> Surroundings:
        return Surroundings(outage=DiskOutage())


class _OnServer(TierConformance):
    server: Any
    make: Callable[[Path], Server]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        cls.server = started(cls.make, tmp_path_factory.mktemp("server"))
        yield
        cls.server.kill()


class TestRedisTier(_OnServer):
    make = RedisServer
    operations = 10_000

    def factory(self, **arguments: Any) -> Any:  # type: ignore[override]
        return tier_factories.redis(url=self.server.url, **arguments)

    def surround(self, root: Path) -> Surroundings:
        return Surroundings(RedisMedia(self.server.url), ServerOutage(self.server))


class TestObjectStoreTier(_OnServer):
    make = SeaweedServer
    # SeaweedFS takes milliseconds for an object.
    operations = 10_000 if os.environ.get("CI") else 2_000

    def factory(self, **arguments: Any) -> Any:  # type: ignore[override]
        server = self.server
        access = {"access_key": server.access_key, "secret_key": server.secret_key}
        return tier_factories.s3(
            bucket=server.bucket, endpoint=server.endpoint, **access, **arguments
        )

    def surround(self, root: Path) -> Surroundings:
        return Surroundings(BucketMedia(self.server.store()), ServerOutage(self.server))


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_operations_mix_no_bytes(name: str) -> None:
    with chosen_tier(name) as tier:
        report = check_tier(tier, contracts=["D1-bytes"], operations=100_000)
        assert report.exit == 0, [r.says for r in report.results]


def test_there_are_faults_for_every_contract() -> None:
    assert {fault.contract for fault in FAULTS.values()} == set(TIER_CONTRACTS)
    assert len(FAULTS) >= 20


def test_the_tiers_and_the_kit_mean_the_same_contracts() -> None:
    assert tuple(TIER_CONTRACTS) == base.CONTRACTS == tuple(CHECKS)


# --- the command ---

FILE = """
from tierproof.properties.tier_specimen import Specimen
from tierproof.properties.tier_faults import FAULTS

Faulty = FAULTS["KeepsItsVerdict"].factory

class Modest(Specimen):
    claims = ("T4-visible", "T5-withdraw")

class Gap(Faulty):
    claims = ("T5-withdraw",)
    known_gaps = {"T5-withdraw": "issue 12"}

class Closed(Modest):
    known_gaps = {"T5-withdraw": "issue 12"}

def broken(*, block_bytes, root, namespace):
    raise RuntimeError("no such disk")

def nothing(*, block_bytes, root, namespace):
    return object()

def other(path):
    return None
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_check_tier_tells_what_holds_and_what_is_not_claimed(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    assert main(["check-tier", f"{file}:Modest", "--json", str(out)]) == 0
    assert "keeps every contract that it claims" in capsys.readouterr().out
    data = json.loads(out.read_text())
    assert data["schema"] == "tierproof.report/1"
    verdicts = {r["contract"]: r["verdict"] for r in data["results"]}
    assert list(verdicts.values()).count("holds") == 2
    assert verdicts["T1-nonblocking"] == "not_claimed"
    assert verdicts.keys() == TIER_CONTRACTS.keys()


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("Gap", 0, "issue 12"),
        ("Closed", 1, "a known gap is closed"),
        ("broken", 2, "no such disk"),
        ("nothing", 2, "which has no name, no attach"),
        ("other", 2, "must accept factory(*, block_bytes, root, namespace)"),
        ("none", 2, "has no 'none'"),
    ],
)
def test_check_tier_ends_with_the_right_code_and_says_why(
    file: Path, capsys: pytest.CaptureFixture[str], name: str, code: int, said: str
) -> None:
    assert main(["check-tier", f"{file}:{name}"]) == code
    told = capsys.readouterr()
    assert said in " ".join((told.out + told.err).split())


def test_check_tier_finds_a_fault(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = file.parent / "two.py"
    folder.write_text(FILE + "\nFaulty.claims = ('T5-withdraw',)\n")
    page = file.parent / "report.html"
    assert main(["check-tier", f"{folder}:Faulty", "--html", str(page)]) == 1
    assert "a key whose load failed is still claimed" in capsys.readouterr().out
    assert "T5-withdraw, runs: a key whose load failed is still claimed" in page.read_text()


def test_an_unknown_name_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-tier", "disk"]) == 2
    assert "memory, files, slab, s3, redis, module:factory" in capsys.readouterr().err
