"""The public cases that are a consumer's: B66, B72, B73, B75."""

import pytest

from tierproof.impl.config import ManagerConfig
from tierproof.impl.ledger import CountedLookups
from tierproof.properties.consumers import CONSUMERS
from tierproof.properties.simulation import SimulatedTier, Simulation

from .support import FULL, figures, run, workload

EVERY = ("two-phase", "pending", "retry")
STATE = {"name": "state", "kind": "recurrent", "tokens_per_block": 4}


class Failing(SimulatedTier):
    """Has chunk 4 until it is to be loaded."""

    def submit_load(self, job):
        self.keys = set(self.keys) - {(0, 0, 4)}
        super().submit_load(job)


class Counted(Simulation):
    """Counts lookups, and looks at every counter after each pass."""

    def __init__(self, work, consumer="two-phase"):
        choice = CONSUMERS[consumer]
        super().__init__(work, choice.make, delay=0, share=choice.share)
        self.manager = type(self.manager)(
            slots=work.primary_slots,
            block_bytes=1,
            tiers=self.tiers,
            clock=lambda: 0.0,
            config=ManagerConfig(count_lookups=True, promotion_share=choice.share),
        )
        self.before: dict[str, float] = {}

    def _measure(self, waiting):
        super()._measure(waiting)
        now = self.manager.stats()
        for name, value in now.items():
            if name.partition("{")[0].endswith("_total"):
                assert value >= self.before.get(name, 0), f"{name} fell"
        self.before = now


class CountedFailing(Counted):
    tier_of = Failing


@pytest.mark.parametrize("consumer", EVERY)
def test_b66_no_counter_falls_over_preemption_and_a_failed_load(consumer):
    # external hit 4; preempted; back with external hit 6; then the load of chunk 4 fails
    requests = [
        {"id": "R", "prompt_tokens": 96, "max_load_tokens": 64},
        {"id": "R again", "prompt_tokens": 96, "arrival_step": 2},
    ]
    work = workload(requests=[requests[0]])
    assert Counted(work, consumer).go().requests[0].hit_tokens == 64
    requests[1].update(prefix_of="R", prefix_tokens=96)
    again = CountedFailing(workload(requests=requests), consumer)
    first, second = again.go().requests
    assert (first.hit_tokens, second.hit_tokens) == (64, 64), "the failed block ends the hit"
    local, external = 0, second.hit_tokens
    computed = second.request.prompt_tokens - external - local
    assert min(local, external, computed) >= 0
    assert local + external + computed == 96


def test_b66_a_fault_in_the_counting_never_stops_serving(monkeypatch):
    def broken(*_):
        raise RuntimeError("counting is broken")

    monkeypatch.setattr(CountedLookups, "record", broken)
    for consumer in EVERY:
        assert Counted(workload(), consumer).go().requests[0].hit_tokens == 192


@pytest.mark.parametrize(("tokens", "hit"), [(8, 4), (9, 8), (4, 0)])
@pytest.mark.parametrize("consumer", EVERY)
@pytest.mark.parametrize("beside", [[], [{**FULL, "tokens_per_block": 4}]])
def test_b72_a_state_that_holds_the_last_token_is_not_restored(tokens, hit, consumer, beside):
    work = workload(groups=[STATE, *beside], requests=[{"id": "R", "prompt_tokens": tokens}])
    assert figures(work, consumer)["hit_tokens"] == hit


def retaining(*missing, tokens=49, retained=16):
    window = {"name": "w", "kind": "window", "tokens_per_block": 16, "window": 32}
    return workload(
        groups=[FULL, {**window, "retained_tokens": retained}],
        tiers=[{"name": "t", "missing": [{"group": "w", "chunks": list(missing)}]}],
        requests=[{"id": "R", "prompt_tokens": tokens}],
    )


@pytest.mark.parametrize("consumer", EVERY)
def test_b73_a_load_reads_only_what_the_lookup_found_and_the_filter_kept(consumer):
    whole = run(retaining(), consumer).requests[0]
    assert whole.hit_tokens == 48
    assert {c for g, c in whole.read if g == 1} == {0, 1, 2}, "the retained chunk is read too"
    short = run(retaining(0), consumer).requests[0]
    assert short.hit_tokens == 0, "without it there is no hit, and no load that fails"
    for seen in (whole, short):
        assert set(seen.read) <= seen.asked
        assert set(seen.read) <= seen.stored


def test_b73_one_retained_token_widens_where_it_reaches_into_another_chunk():
    # the hit ends at 47, so a window of 32 and one token more reaches into chunk 0
    assert run(retaining(tokens=48, retained=1)).requests[0].hit_tokens == 47
    assert run(retaining(0, tokens=48, retained=1)).requests[0].hit_tokens < 47


@pytest.mark.parametrize("consumer", EVERY)
@pytest.mark.parametrize("draft", [(False, False), (True, False), (False, True), (True, True)])
def test_b75_what_is_stored_is_served_for_each_draft_flag(consumer, draft):
    groups = [{**FULL, "name": name, "draft": flag} for name, flag in zip("ab", draft, strict=True)]
    work = workload(groups=groups, bytes_per_block=100, requests=[{"id": "R", "prompt_tokens": 48}])
    seen = figures(work, consumer)
    assert seen["stored"] == 6
    assert seen["hit_tokens"] == (32 if any(draft) else 48), "3 chunks, or 2 where the last drops"
    assert seen["bytes_promoted"] > 0
