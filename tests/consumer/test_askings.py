"""`verify` holds the two-phase consumer to A2; a consumer or a manager that does not is noticed."""

from tierproof import TieredOffloadingManager
from tierproof.impl.resolution import Resolution
from tierproof.properties.askings import ask_no_more
from tierproof.properties.managers import shipped


class AsksTwice(TieredOffloadingManager):
    def exists(self, keys, request):
        super().exists(keys, request)
        return super().exists(keys, request)


def build(kind):
    return lambda *, slots, tiers, clock, block_bytes: kind(
        slots=slots, tiers=tiers, clock=clock, block_bytes=block_bytes
    )


def test_the_consumer_asks_for_no_more_than_it_must():
    found = ask_no_more(shipped, examples=150, seed=1)
    assert found.broken == []
    assert found.workloads == 150
    assert found.checks > 500


def test_a_manager_that_asks_twice_is_noticed():
    wrong, *_ = ask_no_more(build(AsksTwice), examples=50, seed=1).broken
    assert wrong.startswith("a key was asked for twice")


def test_a_consumer_that_asks_for_everything_at_once_is_noticed(monkeypatch):
    def everything(self, chunks):
        more = self._asked.geometry.reachable(self._asked.prompt)
        return not self._hear([at for at in more if at not in self._there])

    monkeypatch.setattr(Resolution, "_ask", everything)
    wrong, *_ = ask_no_more(shipped, examples=50, seed=1).broken
    assert "more was asked for than the hit needs" in wrong or "given up" in wrong
