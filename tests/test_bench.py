"""Measuring V(n), and finding committed results where no verifier can run."""

import json
import os
import subprocess
import sys
from statistics import median

import pytest
from tiny_verifier import tiny_verifier

from specdec import bench
from specdec.errors import SpecdecError
from specdec.theory.speedup import measured_cost


def test_the_cost_curve_is_in_units_of_one_token_and_feeds_the_speedup_formulas():
    curve = bench.cost_curve(tiny_verifier(), widths=(1, 4, 16), context=32, repeats=5)
    assert curve["widths"] == [1, 4, 16]
    assert curve["V"][0] == 1
    for v, ms, (low, high) in zip(curve["V"], curve["ms"], curve["quartiles"], strict=True):
        assert v == pytest.approx(ms / curve["ms"][0], rel=0.05)
        assert 0 < low <= ms <= high
    assert measured_cost(curve["widths"], curve["ms"])(4) == pytest.approx(curve["V"][1], rel=0.05)
    assert json.loads(json.dumps(curve)) == curve
    assert curve["machine"]["threads"] >= 1


def test_v_is_the_cost_of_a_pass_in_units_of_one_token(monkeypatch):
    """By a clock that a pass over n tokens moves on by 10 + n ms: V(n) = (10 + n) / 11."""
    verifier, now = tiny_verifier(), [0.0]
    forward = verifier.forward

    def slow(tokens, cache, **options):
        now[0] += (10 + tokens.shape[1]) / 1000
        return forward(tokens, cache, **options)

    verifier.forward = slow
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now[0])
    curve = bench.cost_curve(verifier, (1, 2, 12), context=40, repeats=4)
    assert curve["ms"] == [11, 12, 22]
    assert curve["V"] == [1, round(12 / 11, 4), 2]


def test_every_round_runs_every_width_once_behind_the_same_context():
    verifier, seen = tiny_verifier(), []
    forward = verifier.forward

    def watched(tokens, cache, **options):
        seen.append((cache.length, tokens.shape[1]))
        return forward(tokens, cache, **options)

    verifier.forward = watched
    bench.cost_curve(verifier, (1, 2, 8), context=40, repeats=4, seed=3)
    assert seen[0] == (0, 40)
    rounds = [seen[i : i + 3] for i in range(1, len(seen), 3)]
    assert len(rounds) == bench.WARM_UP + 4
    assert all(sorted(r) == [(40, 1), (40, 2), (40, 8)] for r in rounds)
    assert len({tuple(r) for r in rounds}) > 1  # shuffled


@pytest.mark.parametrize("widths", [(), (2, 4), (1, 4, 4), (1, 8, 2)])
def test_widths_that_do_not_rise_from_one_are_refused(widths):
    with pytest.raises(SpecdecError, match="widths must rise from 1"):
        bench.cost_curve(tiny_verifier(), widths)


def test_a_context_or_a_number_of_repeats_that_cannot_be_measured_is_refused():
    with pytest.raises(SpecdecError, match="context must be at least 1 and repeats at least 2, got 0 and 5"):
        bench.cost_curve(tiny_verifier(), (1,), context=0, repeats=5)
    with pytest.raises(SpecdecError, match="from 1 to the context length 256, got 300"):
        bench.cost_curve(tiny_verifier(), (1, 44), context=256)


def test_committed_results_are_found_from_any_folder_below_and_from_the_package(tmp_path, monkeypatch):
    bench.write_result("some-result", {"x": 1}, make(tmp_path / "benchmarks" / "results"))
    monkeypatch.chdir(make(tmp_path / "notebooks" / "ex1"))
    assert bench.committed("some-result") == {"x": 1}
    assert "fp32" in bench.committed("verify-cost")  # not below here: the package's own checkout has it
    with pytest.raises(SpecdecError, match=r"no benchmarks/results/no-such.json .* benchmarks/no_such.py"):
        bench.committed("no-such")


def make(folder):
    folder.mkdir(parents=True)
    return folder


def test_a_result_is_written_whole_or_not_at_all(tmp_path):
    bench.write_result("r", {"x": [1, 2]}, tmp_path)
    with pytest.raises(TypeError):
        bench.write_result("r", {"x": object()}, tmp_path)
    assert json.loads((tmp_path / "r.json").read_text()) == {"x": [1, 2]}
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_the_committed_cost_of_verification_says_where_it_comes_from_and_is_consistent():
    result = bench.committed("verify-cost")
    assert {"machine", "commit", "date", "seed", "model", "context", "repeats"} <= result.keys()
    assert {"cpu", "cores", "torch", "threads"} <= result["machine"].keys()
    for precision in ("fp32", "bf16"):
        curve = result[precision]
        assert curve["widths"] == [*range(1, 17), 24, 32, 48, 64]
        assert curve["V"] == pytest.approx([ms / curve["ms"][0] for ms in curve["ms"]], abs=1e-3)
        # What the course rests on: eight tokens cost far less than eight passes.
        assert median(curve["V"][6:9]) < 3


def test_without_torch_the_module_imports_and_one_sentence_says_what_is_missing():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from specdec import bench\n"
        "assert bench.verifier_or_none() is None\n"
        "assert bench.machine()['threads'] is None and bench.machine()['cpu']\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith("The committed result is shown, because torch is not installed here")
    assert done.stdout.count("\n") == 1


def test_without_the_weights_one_sentence_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SPECDEC_HOME", str(tmp_path))
    assert bench.verifier_or_none() is None
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.count("\n") == 1
    assert str(tmp_path) in shown.out


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", None), ("100000 100000", 1), ("50000 100000", 1), ("", None)]
)
def test_a_containers_quota_limits_the_usable_cores(tmp_path, quota, cores):
    (tmp_path / "cpu.max").write_text(quota)
    assert bench.usable_cores(tmp_path / "cpu.max") == (cores or len(os.sched_getaffinity(0)))
    assert bench.usable_cores(tmp_path / "none") == len(os.sched_getaffinity(0))


@pytest.mark.weights
def test_with_torch_and_the_weights_the_verifier_comes_silently(capsys):
    assert bench.verifier_or_none("bf16").precision == "bf16"
    assert capsys.readouterr() == ("", "")
