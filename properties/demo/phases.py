"""What the two processes of the demo do; the second one knows what the first one printed, no more.

`write` computes the prompt twice: once as if there were no tiers, for the logits to compare with,
and once offloading what it computes. `resume` finds what is in the secondary tier, loads what the
plan says, computes the rest in the same pieces and goes on.
"""

from __future__ import annotations

import os
import time

import numpy as np
import torch

from ...impl.answers import Asked
from ...impl.device.cuda import CudaBackend
from ...impl.errors import ConfigError, TierError
from ...impl.two_phase import TwoPhase
from .cache import PagedCache
from .model import Model, settle
from .node import PATIENCE, Node, node
from .processes import Progress
from .prompt import CHUNK, DECODED, TOKENS, Chunk, Prompt, named
from .results import Resumed, Written
from .settings import Settings

_NAP = 0.0002


def write(settings: Settings, progress: Progress) -> Written:
    """The first process.

    Raises:
        ConfigError: there is no such device, or the tier cannot be built.
        TierError: the tier does not keep what it is given.
    """
    _begin(settings)
    prompt, model = Prompt(settings.seed), Model(settings.seed, settings.device)
    never = PagedCache(settings.layout, settings.device, "never")
    # What is computed first in a process takes longer, and this run's time is compared with.
    model.forward(prompt.tokens[:CHUNK], 0, PagedCache(settings.layout, settings.device, "warm"))
    seconds, clock = {}, _Clock(settings)
    last = _prefill(model, prompt, never, 0, progress, "never offloaded")
    seconds["prefill"] = clock.lap()
    logits = _decode(model, never, last, progress, "never offloaded")
    assert np.isfinite(np.frombuffer(logits, np.float32)).all(), "the model reads what is not there"
    seconds["decode"] = clock.lap()

    cache = PagedCache(settings.layout, settings.device, "first")
    fingerprints: dict[Chunk, str] = {}
    with node(settings, prompt, cache) as here:
        clock.lap()
        for first, end in prompt.pieces():
            progress("prefill, offload", first, TOKENS)
            model.forward(prompt.tokens[first:end], first, cache)
            # Behind the computation: the piece before was copied and stored beside it.
            here.settle()
            complete = prompt.completed(first, end)
            fingerprints.update(cache.fingerprints(complete))
            here.offer(complete)
            here.step()
            cache.forget(end, here.is_busy)
        here.settle()
        seconds["prefill_and_offload"] = clock.lap()
        kept = here.tier.counters["stored"] + here.tier.counters["already_stored"]
        if kept < len(fingerprints):
            raise TierError(
                f"tier {here.tier.name!r} has kept {kept} of {len(fingerprints)} blocks; is there "
                "room, and does it answer? `tierproof doctor --config FILE.toml` tries it"
            )
        return Written(
            *(os.getpid(), str(torch.__version__), logits, fingerprints),
            *(here.stored_bytes, kept, seconds),
        )


def resume(settings: Settings, progress: Progress) -> Resumed:
    """The second process.

    Raises:
        ConfigError: there is no such device, or the tier cannot be built.
        TierError: what the tier has does not come.
    """
    _begin(settings)
    prompt, model = Prompt(settings.seed), Model(settings.seed, settings.device)
    cache = PagedCache(settings.layout, settings.device, "second")
    seconds = {}
    with node(settings, prompt, cache) as here:
        clock = _Clock(settings)
        hit, loaded, waves = _load(here, prompt, progress)
        seconds["load"] = clock.lap()
        fingerprints = cache.fingerprints(loaded)
        if not loaded:
            raise TierError(f"tier {here.tier.name!r} has nothing any more of what it kept")
        refused = here.refused([at for at in prompt.wanted() if at not in loaded])
        promoted, corrupt = here.tier.counters["loaded"], here.tier.counters["corrupt"]
        # Loaded for a hit that came to nothing: computed again, so the blocks are given back.
        needed = prompt.geometry.reads(prompt.asked, hit)
        for at in loaded:
            if at not in needed:
                cache.drop(at)
        clock.lap()
        last = _prefill(model, prompt, cache, hit, progress, "compute the rest")
        seconds["rest"] = clock.lap()
        logits = _decode(model, cache, last, progress, "decode")
        seconds["decode"] = clock.lap()
        return Resumed(
            *(os.getpid(), logits, hit, fingerprints, refused, promoted, corrupt),
            *(here.loaded_bytes, waves, seconds),
        )


def _load(here: Node, prompt: Prompt, progress: Progress) -> tuple[int, list[Chunk], int]:
    """What a scheduler does with a waiting request: the hit, the blocks loaded, in how many waves.

    Raises:
        TierError: the tier does not decide, or what it has does not come.
    """
    keys = prompt.key
    consumer = TwoPhase(here.manager, Asked(here.request, prompt.asked, prompt.geometry, keys))
    loaded: list[Chunk] = []
    waves, begun, most = 0, time.monotonic(), len(prompt.wanted())
    progress("look up, load", 0, most)
    while time.monotonic() - begun < PATIENCE:
        with here.manager.lock:
            answer = consumer.ask()
            if answer.load is not None:
                loaded += here.load(answer.load)
                waves += 1
                progress("look up, load", len(loaded), most)
            here.manager.on_schedule_end()
        if answer.hit is not None:
            return answer.hit, loaded, waves
        time.sleep(_NAP)
    missing = next((at for at in prompt.wanted() if at not in loaded), None)
    what = "an answer" if missing is None else named(missing)
    raise TierError(f"tier {here.tier.name!r} did not give {what} within {PATIENCE:g} s")


def _prefill(
    model: Model, prompt: Prompt, cache: PagedCache, hit: int, progress: Progress, what: str
) -> torch.Tensor:
    """Compute the prompt behind a hit; the logits of the first token to decode."""
    for first, end in prompt.pieces(hit):
        progress(what, first - hit, TOKENS - hit)
        logits = model.forward(prompt.tokens[first:end], first, cache)
        cache.forget(end)
    return logits


def _decode(
    model: Model, cache: PagedCache, logits: torch.Tensor, progress: Progress, what: str
) -> bytes:
    """Go on for `DECODED` tokens, always the likeliest one; the logits that each is chosen by."""
    rows = [logits]
    for number in range(1, DECODED):
        progress(what, number, DECODED)
        place = TOKENS + number - 1
        rows.append(model.forward([int(rows[-1].argmax())], place, cache))
        cache.forget(place + 1)
    return torch.stack(rows).cpu().numpy().tobytes()


def _begin(settings: Settings) -> None:
    settle(settings.device)
    if settings.device == "cuda":
        try:
            CudaBackend()  # before anything is computed
        except ConfigError as error:
            raise ConfigError(
                "torch sees no CUDA device; choose --device cpu, or install the build of torch "
                "that fits your GPU"
            ) from error


class _Clock:
    """Seconds from one call to the next, the device's work included."""

    def __init__(self, settings: Settings) -> None:
        self._cuda = settings.device == "cuda"
        self._since = 0.0
        self.lap()

    def lap(self) -> float:
        """Seconds since the last call."""
        if self._cuda:
            torch.cuda.synchronize()
        before, self._since = self._since, time.perf_counter()
        return self._since - before
