"""`tierproof bench scan`, on short prompts and few requests."""

from tierproof.properties import commands_bench_scan as bench
from tierproof.properties.terminal import Terminal


def test_every_measure_is_a_ratio_to_one_phase_on_the_same_manager(monkeypatch):
    monkeypatch.setattr(bench, "WAITING", (1, 5))
    report = bench.bench_scan(Terminal(), lengths=(1_024,))
    told = [measure.what for measure in report.measures]
    assert len(told) == 3 * 3
    assert told[2] == "1,024 tokens, all passes: ratio"
    assert told[-1] == "5 requests wait, one pass: ratio"
    assert all(measure.value > 0 for measure in report.measures)
    assert report.exit == 0
    assert "vLLM" in report.lines[-1]


def test_a_waiting_request_is_not_scanned_from_its_start_in_every_pass():
    seconds = {}
    for consumer in (bench.TWO, bench.ONE):
        work = bench.workload(bench.WAITING_TOKENS, 20)
        waits = bench.timed(work, consumer, delay=5, passes=4)[1:]
        seconds[consumer] = min(waits)
    assert seconds[bench.TWO] < seconds[bench.ONE] / 3
