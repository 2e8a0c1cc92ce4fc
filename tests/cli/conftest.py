"""Commands run in this process, on stand-ins for the checks that take seconds."""

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tierproof import TieredOffloadingManager
from tierproof._entry import main as entry
from tierproof.impl.vocabulary import LookupResult
from tierproof.model.operations import Lookup, Setting, StepEnd, TierSetting
from tierproof.model.rules import RULES
from tierproof.properties.cli import main
from tierproof.properties.contracts import CONTRACTS
from tierproof.properties.found import Found
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.situations import SITUATIONS

SETTING = Setting(tiers=(TierSetting("t0", has=("k0",)),))
HISTORY = (Lookup("k0", "r0"), StepEnd(), Lookup("k0", "r0"))


@pytest.fixture(autouse=True)
def _as_wide_as_a_pipe(monkeypatch):
    """Tests that run side by side are given a width by what runs them."""
    monkeypatch.delenv("COLUMNS", raising=False)


class AnswersRetry(TieredOffloadingManager):
    """Answers RETRY where a promotion has been started."""

    def lookup(self, key, request):
        answer = super().lookup(key, request)
        return LookupResult.RETRY if answer is LookupResult.HIT_PENDING else answer


def walk(factory, method):
    """A tour of one history."""
    lockstep = Lockstep(factory, SETTING)
    try:
        lockstep.run(HISTORY)
    except Divergence as divergence:
        return [Found(SETTING, divergence, method)]
    return []


@dataclass
class Verdict:
    contract: str
    obligation: str = "an obligation"
    rule: str = "promote"
    verdict: str = "proved"
    core: tuple[str, ...] = ()
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.01


@dataclass
class Stand:
    """What the stand-ins do; a test changes it."""

    undecided: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    missing_rules: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    runs_reach: bool = True
    raises: BaseException | None = None
    differences: tuple[str, ...] = ()
    opinion: dict[str, Any] = field(default_factory=dict)
    unproved_by_cvc5: tuple[str, ...] = ()
    fates: list[Any] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def prove(self, rules=RULES, *, seed=0, workers=1):
        self.seeds.append(seed)
        verdicts = [
            Verdict(c.id)
            for c in CONTRACTS.values()
            if "proof" in c.methods and c.id not in self.unproved
        ]
        for v in verdicts:
            if v.contract in self.undecided:
                v.verdict = "unknown"
            if rules is not RULES and v.contract == "L2-until-landed":
                v.verdict, v.before, v.after = "refuted", {"phase": "LOADING"}, {"answer": "RETRY"}
        verdicts += [replace(v, obligation="another obligation") for v in verdicts]
        return verdicts

    def reached(self):
        """Marks of all situations but those of some contracts."""
        marks = {m for several in SITUATIONS.values() for one in several for m in one.marks}
        for contract in self.unreached:
            marks -= {m for one in SITUATIONS[contract] for m in one.marks}
        return marks

    def tour(self, factory, *, progress=None, stop_at_first=False, patience=None):
        if self.raises:
            raise self.raises
        if progress:
            progress(1, 2)
        return SimpleNamespace(
            cases=3,
            states=2,
            operations=3,
            rules=Counter(r.name for r in RULES if r.name not in self.missing_rules),
            missing_rules=self.missing_rules,
            divergences=walk(factory, "tour"),
            reached=self.reached(),
            seconds=0.1,
        )

    def fuzz(self, factory, *, examples=300, seed=None, progress=None, counts=None):
        self.seeds.append(seed)
        found = walk(factory, "runs")
        return SimpleNamespace(
            examples=examples,
            operations=9,
            divergences=found,
            reached=self.reached() if self.runs_reach else set(),
            seconds=0.2,
        )

    def ask_spacer(self):
        names = {"verdict": "holds", "checked": True, **self.opinion}
        return [SimpleNamespace(contract="S3-pins", name="an invariant", **names)]

    def export(self, folder):
        (folder / "promote.smt2").write_text("(check-sat)")
        return [folder / "promote.smt2"]

    def reprove(self, paths):
        return [SimpleNamespace(rule=p.stem, proved=3, failed=self.unproved_by_cvc5) for p in paths]

    def compare(self, rules=RULES):
        return SimpleNamespace(cases=5, differences=list(self.differences))

    def with_files(self, factory, *, operations, seed, counts=None):
        return SimpleNamespace(
            operations=7, stored=2, loaded=1, divergences=[], reached=set(), seconds=0.1
        )

    def shortest(self, factory, found, *, limit_s=20.0, counts=None):
        return found


def module(**names):
    made = ModuleType("stand_in")
    vars(made).update(names)
    return made


@pytest.fixture
def stand(monkeypatch):
    stand = Stand()
    fault = SimpleNamespace(factory=AnswersRetry, rules=(replace(RULES[0]), *RULES[1:]))
    names = ("retry_on_promotion", "submits_twice", "keeps_claim")
    for name, made in {
        "proof": module(prove=stand.prove, Verdict=Verdict),
        "second_opinion": module(ask_spacer=stand.ask_spacer),
        "smtlib": module(export=stand.export, reprove=stand.reprove),
        "readings": module(compare=stand.compare),
        "real_tiers": module(with_files=stand.with_files),
        "tour": module(Patience=SimpleNamespace, tour=stand.tour),
        "machine": module(fuzz=stand.fuzz),
        "shortest": module(shortest=stand.shortest),
        "faults": module(FAULTS=dict.fromkeys(names, fault)),
        "mutants": module(
            table_fates=lambda step: [f for f in stand.fates if f.set == "table"],
            production_fates=lambda step, search: [f for f in stand.fates if f.set == "production"],
        ),
    }.items():
        monkeypatch.setitem(sys.modules, f"tierproof.properties.{name}", made)
    return stand


@pytest.fixture
def run(stand, capsys, monkeypatch, tmp_path):
    """Run a command in an empty folder: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run_here(*args):
        code = main([str(a) for a in args])
        told = capsys.readouterr()
        return SimpleNamespace(code=code, out=told.out, err=told.err)

    return run_here


@pytest.fixture
def run_entry(run, capsys, monkeypatch):
    """The same through the console script, which adds the exit code of our own faults."""

    def run_script(*args):
        monkeypatch.setattr(sys, "argv", ["tierproof", *map(str, args)])
        code = entry()
        told = capsys.readouterr()
        return SimpleNamespace(code=code, out=told.out, err=told.err)

    return run_script
