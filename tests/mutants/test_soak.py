"""A soak notices what does not add up, and goes on where it was stopped."""

import json
import logging
from dataclasses import asdict

import pytest

from tierproof.properties import soak as module
from tierproof.properties.cli import main
from tierproof.properties.soak import from_numbers, numbers, soak


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("tierproof").setLevel(logging.CRITICAL + 1)
    yield
    logging.getLogger("tierproof").setLevel(logging.NOTSET)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(module, "ROUND", 400)


def test_a_short_soak_finds_nothing_and_does_everything(short):
    result = soak(1_200, seed=5)
    assert not result.wrong
    assert (result.operations, result.rounds) == (1_200, 3)
    assert result.hits_read > 50
    assert {"lookup", "store", "stored", "loaded", "end_step", "finish"} <= set(result.calls)
    assert result.last_files <= result.first_files + 2, "files stay open"


def test_wrong_bytes_are_found(short, monkeypatch):
    monkeypatch.setattr(module, "garbage", lambda why, size: b"x" * size)
    monkeypatch.setattr(module.Round, "_stored", _stores_badly)
    result = soak(5_000, seed=1)
    assert result.wrong
    assert "holds other bytes" in result.wrong[0]
    assert "seed 1, round" in result.wrong[0]


def _stores_badly(self):
    while self.stores:
        operation = self.stores.pop()
        for slot in operation.slots:
            self.manager.arena.row(slot)[:] = b"x" * module.BLOCK_BYTES
        self.manager.complete_store(operation)


def test_what_does_not_add_up_is_found(short, monkeypatch):
    def leaks(self):
        self.manager._primary.free -= 1

    monkeypatch.setattr(module.Round, "_touch", leaks)
    result = soak(5_000, seed=1)
    assert result.wrong
    assert "free slots" in result.wrong[0]


def test_numbers_of_a_soak_are_read_back(short):
    result = soak(400, seed=2)
    again = from_numbers(numbers(result), result.seconds)
    assert asdict(again) == asdict(result)


def test_a_soak_goes_on_from_its_report(short, tmp_path, capsys):
    kept = tmp_path / "soak.json"
    assert main(["soak", "--operations", "400", "--seed", "7", "--json", str(kept)]) == 0
    first = json.loads(kept.read_text())["results"][0]["counts"]
    assert main(["soak", "--operations", "800", "--seed", "7", "--json", str(kept)]) == 0
    second = json.loads(kept.read_text())["results"][0]["counts"]
    assert (first["operations"], second["operations"], second["rounds"]) == (400, 800, 2)
    assert main(["soak", "--operations", "900", "--seed", "8", "--json", str(kept)]) == 2
    assert "another command or seed" in capsys.readouterr().err
    kept.write_text("{}")
    assert main(["soak", "--operations", "900", "--seed", "7", "--json", str(kept)]) == 2
