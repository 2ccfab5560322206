"""The data-scaling curve: which trainings it takes, what is read of them, and that the script goes on."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_models import FACTS
from tiny_verifier import tiny_verifier

from specdec.errors import SpecdecError
from specdec.plotting import style
from specdec.train.batches import HELD_OUT
from specdec.train.features import extract
from specdec.train.scaling import COLOURS, draw_scaling, points, row
from specdec.train.shards import make_shard, open_run, shard_path, write_shard

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "scaling.py"
RUN = {"format": 1, "seed": 0}


def outcome(family: str, texts: int, answer_tokens: int, alphas: list[float], updates: int = 4) -> dict:
    numbers = {"updates": updates, "evaluate_every": 1, "patience": updates, "learning_rate": 1e-3}
    return FACTS | {
        "config": FACTS["config"] | numbers | {"family": family, "texts": texts},
        "data": RUN,
        "texts": texts,
        "answer_tokens": answer_tokens,
        "best": {"update": 3, "sampled": alphas, "greedy": alphas, "promise": 1.5},
    }


def test_the_points_are_both_families_at_every_share_of_the_training_texts():
    """Of 6,000 texts one in twenty is held out: 5,700, and their parts."""
    expected = {("eagle1", n) for n in (712, 1425, 2850, 5700)} | {
        ("eagle3", n) for n in (712, 1425, 2850, 5700)
    }
    found = points(6000)
    assert set(found) == expected
    assert len(found) == 8
    assert [n for _, n in found] == sorted(n for _, n in found)
    with pytest.raises(SpecdecError, match="there are 19 texts, but a scaling curve needs 20"):
        points(HELD_OUT - 1)


def test_the_plot_has_a_labelled_line_per_family_through_its_points():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style()
    rows = [
        row(outcome(family, n, 100 * n, [a + 0.01 * n, a]))
        for family, a in (("eagle3", 0.4), ("eagle1", 0.3))
        for n in (2, 1)
    ]
    figure, axes = plt.subplots()
    draw_scaling(axes, rows)
    drawn = {line.get_color(): line.get_xydata() for line in axes.get_lines()}
    assert drawn.keys() == set(COLOURS.values())
    assert drawn[COLOURS["eagle1"]] == pytest.approx(np.array([[100, 0.31], [200, 0.32]]))
    assert drawn[COLOURS["eagle3"]] == pytest.approx(np.array([[100, 0.41], [200, 0.42]]))
    assert {text.get_text() for text in axes.texts} == {"EAGLE-1", "EAGLE-3"}
    with pytest.raises(SpecdecError, match="measured for tokens 1 to 2, not for token 3"):
        draw_scaling(axes, rows, depth=3)
    plt.close(figure)


@pytest.fixture
def folders(tmp_path):
    """Forty texts with features, and a folder for runs."""
    data, features = tmp_path / "data", tmp_path / "features"
    open_run(data, RUN)
    rng = np.random.default_rng(0)
    answers = rng.integers(16, size=(40, 5)).tolist()
    shard = make_shard([[1, 2]] * 40, answers, list(range(40)), ["x"] * 40, [0.0] * 40, RUN)
    write_shard(shard_path(data, 0), shard)
    extract(data, features, tiny_verifier(layers=6), "checksum", (2, 3, 4))
    return data, features, tmp_path / "runs"


def script(folders, *more):
    data, features, runs = map(str, folders)
    command = [sys.executable, str(SCRIPT), "--data", data, "--features", features, "--runs", runs]
    return subprocess.run([*command, *more], capture_output=True, text=True, timeout=120)


def test_the_script_reads_the_points_that_are_done_and_says_what_is_wrong_with_others(folders, tmp_path):
    for family, texts in points(40):
        folder = folders[2] / f"{family}-{texts}"
        folder.mkdir(parents=True)
        found = outcome(family, texts, 5 * texts, [0.5 if family == "eagle3" else 0.4, 0.3])
        (folder / "training.json").write_text(json.dumps(found))
    results, plot = tmp_path / "results", tmp_path / "curve.svg"
    more = ("--updates", "4", "--results", str(results), "--plot", str(plot))
    done = script(folders, *more)
    assert done.returncode == 0, done.stderr
    result = json.loads((results / "scaling-cpu.json").read_text())
    assert result["complete"]
    assert [(r["family"], r["texts"], r["answer_tokens"], r["sampled"][0]) for r in result["rows"]] == [
        (family, texts, 5 * texts, 0.5 if family == "eagle3" else 0.4) for family, texts in points(40)
    ]
    assert (result["updates"], result["data"], result["seed"]) == (4, RUN, 0)
    assert "<svg" in plot.read_text()

    last = folders[2] / "eagle3-38" / "training.json"
    last.write_text(json.dumps(json.loads(last.read_text()) | {"data": {"format": 1, "seed": 1}}))
    done = script(folders, *more)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("holds trainings on other data: choose another folder with --runs.")
    assert "Traceback" not in done.stderr

    (
        folders[2] / "eagle1-4" / "training.json"
    ).unlink()  # not done: it is trained, which these data cannot be
    done = script(folders, *more)
    assert done.returncode == 2
    assert "the features in" in done.stderr
    assert "come from another verifier" in done.stderr
