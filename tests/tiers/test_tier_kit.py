"""The tier kit: it passes what is right, and each built-in fault is caught by its contract."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.tiers import base
from tierproof.impl.tiers.memory import MemoryTier
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
    ChosenTier,
    check_tier,
    chosen_tier,
    surroundings_of,
)

from .conftest import started


class TestSpecimen(TierConformance):
    factory = Specimen


class TestMemoryTier(TierConformance):
    factory = staticmethod(tier_factories.memory)
    operations = 10_000

    def surround(self, root: Path) -> Surroundings:
        return Surroundings(stops=False)


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


# --- I/O that is stopped ---


class LoadsInPoll(Specimen):
    """Reads its files where it is polled: quick, as long as the disk is."""

    def attach(self, arena: Any) -> None:
        super().attach(arena)
        with self.lock:  # nobody works beside the caller
            self.stopping = True
            self.lock.notify_all()

    def poll(self) -> base.Poll:
        while self.loads or self.stores:
            is_load, unit = self.next()
            self.run(is_load, *unit)
        return super().poll()


class LooksIntoFiles(Specimen):
    """Reads a file to answer a lookup."""

    def lookup(self, key: base.Key, request: base.RequestInfo) -> base.Claim:
        path = self.path(self.digest(key))
        if path.exists():
            path.read_bytes()
        return super().lookup(key, request)


class InMemory(MemoryTier):
    """Nothing that the kit could find, and nothing said about it."""

    def __init__(self, *, block_bytes: int, root: Path, namespace: str) -> None:
        super().__init__(capacity_blocks=64)


class NothingStops(InMemory):
    outage = None


def of_class(factory: Any, contract: str) -> Any:
    chosen = ChosenTier("mine", factory, CHECKS, {}, partial(surroundings_of, factory))
    return check_tier(chosen, contracts=[contract])


@pytest.mark.parametrize(("factory", "call"), [(LoadsInPoll, "poll"), (LooksIntoFiles, "lookup")])
def test_a_call_that_does_its_io_itself_is_found_without_an_outage(factory: Any, call: str) -> None:
    (result,) = of_class(factory, "T1-nonblocking").results
    assert (result.verdict, result.says) == ("violated", f"{call} waits while I/O is stuck")


def test_files_of_a_tier_that_keeps_the_contract_are_stopped_and_mended() -> None:
    report = of_class(Specimen, "T1-nonblocking")
    (result,) = report.results
    assert result.verdict == "holds"
    assert result.counts["faults"] >= 1, "somebody must have waited"
    assert report.exit == 0


def test_a_tier_whose_io_cannot_be_stopped_is_not_said_to_keep_the_contract() -> None:
    report = of_class(InMemory, "T1-nonblocking")
    (result,) = report.results
    assert result.verdict == "not_reached"
    assert "give its factory an attribute outage(root)" in result.says
    assert report.exit == 2
    (result,) = of_class(NothingStops, "T1-nonblocking").results
    assert result.verdict == "holds"


def test_what_is_left_out_without_an_outage_is_said() -> None:
    (line,) = of_class(InMemory, "T8-drain").lines
    assert line.startswith("T8-drain: drain while I/O is stuck was not tried")
    assert of_class(NothingStops, "T8-drain").lines == []


class TakesTuples(Specimen):
    """Counts on what the protocol says of a job's keys and slots."""

    def begin(self, job_id: int, queue: Any, keys: Any, slots: Any) -> None:
        hash((keys, slots))
        super().begin(job_id, queue, keys, slots)

    def submit_load(self, job: base.LoadJob) -> None:
        self.begin(job.job_id, self.loads, job.keys, job.slots)


@pytest.mark.parametrize("contract", CHECKS)
def test_jobs_are_as_the_protocol_says(contract: str) -> None:
    (result,) = of_class(TakesTuples, contract).results
    assert result.verdict in ("holds", "not_reached"), result.says


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
    told = capsys.readouterr().out
    assert "keeps every contract that it claims" in told
    assert "no stored bytes were found" not in told, "T3-bytes is not claimed: none were looked for"
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


def test_the_budget_of_check_tier_is_respected_and_what_was_left_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    assert main(["check-tier", "memory", "--budget", "0.000001", "--json", str(out)]) == 2
    told = " ".join(capsys.readouterr().out.split())
    assert "no time was left for D1-bytes, T1-nonblocking" in told
    assert "not everything could be checked" in told
    verdicts = {r["contract"]: r["verdict"] for r in json.loads(out.read_text())["results"]}
    assert verdicts["T11-shared"] == "not_claimed"
    assert set(verdicts.values()) <= {"skipped", "not_claimed", "holds"}
    assert main(["check-tier", "memory", "--budget", "600", "--operations", "10"]) == 0
    assert main(["check-tier", "memory", "--budget", "0"]) == 2
    assert "--budget 0: write a number of seconds above 0" in capsys.readouterr().err


def test_an_unknown_name_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-tier", "disk"]) == 2
    assert "memory, files, slab, s3, redis, module:factory" in capsys.readouterr().err
