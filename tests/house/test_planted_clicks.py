"""The planted click stream: equal to its plain twin, of the law that it states, and its known scores are true."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from any2vec.data.clicks.clicks import read_clicks
from any2vec.errors import InputError
from any2vec.evaluate.clicks import auc, evaluate_clicks, log_loss
from any2vec.kernels.clicks import planted as kernels
from any2vec.testing import PlantedClicks
from any2vec.testing.planted_clicks import write_tsv
from naive.common import planted as naive

SMALL = {"columns": 7, "rows": 500, "dense": 5, "multi_valued": 3, "longest": 4}


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    "options",
    [SMALL, {"columns": 1, "rows": 1, "dense": 0}, {"columns": 3, "rows": 40, "dense": 1, "factors": 3, "zipf": 0}],
)
@pytest.mark.parametrize("start", [0, 1 << 33])
def test_equal_to_plain_twin(options: dict[str, Any], start: int) -> None:
    clicks = PlantedClicks(1 << 40, seed=3, **options)
    ids, teacher = clicks._ids, clicks._teacher
    key = {purpose: int(clicks._key(purpose)) for purpose in range(101, 106)}
    table = (ids.threshold_R.tolist(), ids.alias_R.tolist())
    F = len(clicks.columns)
    num_single = F - options.get("multi_valued", 0)
    ranked = [clicks.rows_by_popularity(f).tolist() for f in range(F)]
    scale_of = {row: (1 + k / 100) ** -0.5 for rows in ranked for k, row in enumerate(rows)}
    assert sorted(teacher.scale_F, reverse=True) == pytest.approx([k**-0.75 for k in range(1, F + 1)])
    batch, probability = clicks.batch(start, start + 50), clicks.probability(start, start + 50)
    for b in range(50):
        sizes = naive.lengths(key[kernels.PURPOSE_LENGTHS], start + b, num_single, F, ids.longest)
        bags = naive.bags(
            key[kernels.PURPOSE_IDS],
            start + b,
            sizes,
            ids.longest,
            table,
            ids.shift_F.tolist(),
            clicks.offset_F.tolist(),
        )
        dense = naive.dense(key[kernels.PURPOSE_DENSE], start + b, len(clicks.dense_names))
        ends = batch.start_P[b * F : (b + 1) * F + 1]
        assert [batch.id_M[a:z].tolist() for a, z in pairwise(ends)] == bags
        np.testing.assert_allclose(batch.dense_BX[b], dense, rtol=1e-6, atol=1e-6)
        values = batch.dense_BX[b].astype(float).tolist()
        scales = (teacher.scale_F.tolist(), scale_of.__getitem__)
        layers = (teacher.hidden_XH.tolist(), teacher.out_H.tolist())
        parts = naive.parts(key[kernels.PURPOSE_FACTORS], teacher.num_factors, *scales, bags, values, *layers)
        chance = naive.probability(parts, teacher.weight_3.tolist(), teacher.intercept)
        assert probability[b] == pytest.approx(chance, rel=1e-9)
        assert batch.label_B[b] == naive.label(key[kernels.PURPOSE_LABELS], start + b, chance)


def test_arrays_are_as_a_learner_expects() -> None:
    clicks = PlantedClicks(1000, **SMALL)
    batch = clicks.batch(100, 400)
    assert [array.dtype for array in batch] == [np.float32, np.float32, np.int64, np.int64]
    assert (batch.label_B.shape, batch.dense_BX.shape, batch.start_P.shape) == ((300,), (300, 5), (2101,))
    assert (
        clicks.columns == ("C1", "C2", "C3", "C4", "T1", "T2", "T3")
        and clicks.is_mean_F.tolist() == [False] * 4 + [True] * 3
    )
    assert clicks.offset_F.tolist() == list(range(0, 8 * 502, 502)) and clicks.num_rows == 7 * 502
    column_M = np.repeat(np.tile(np.arange(7), 300), np.diff(batch.start_P))
    assert (batch.id_M >= clicks.offset_F[column_M] + 2).all() and (batch.id_M < clicks.offset_F[column_M + 1]).all()
    lengths = np.diff(batch.start_P).reshape(300, 7)
    assert (lengths[:, :4] == 1).all() and np.unique(lengths[:, 4:]).tolist() == [0, 1, 2, 3, 4]
    assert set(np.unique(batch.label_B)) == {0.0, 1.0}


def test_any_range_is_the_same_part_of_the_whole() -> None:
    clicks = PlantedClicks(1000, **SMALL)
    whole, probability = clicks.batch(0, 1000), clicks.probability(0, 1000)
    for start, stop in ((0, 1), (999, 1000), (123, 456), (7, 7)):
        part = clicks.batch(start, stop)
        bags = whole.start_P[start * 7 : stop * 7 + 1]
        expected = (
            whole.label_B[start:stop], whole.dense_BX[start:stop], whole.id_M[bags[0] : bags[-1]], bags - bags[0],
        )  # fmt: skip
        assert same(part, expected)
        assert np.array_equal(clicks.probability(start, stop), probability[start:stop])


def test_pieces_of_a_long_range_fit_together() -> None:
    clicks = PlantedClicks(70_000, columns=1, rows=9, dense=0)
    assert np.array_equal(clicks.probability(60_000, 70_000), clicks.probability(0, 70_000)[60_000:])


def test_a_shorter_stream_is_the_beginning_and_a_seed_is_a_stream() -> None:
    first = PlantedClicks(1000, seed=5, **SMALL)
    again, short, other = (
        PlantedClicks(1000, seed=5, **SMALL),
        PlantedClicks(10, seed=5, **SMALL),
        PlantedClicks(1000, seed=6, **SMALL),
    )
    assert same(first.batch(0, 10), short.batch(0, 10)) and same(first.batch(500, 600), again.batch(500, 600))
    assert first.digest == again.digest and len({first.digest, short.digest, other.digest}) == 3
    ours, theirs = first.batch(0, 200), other.batch(0, 200)
    assert np.mean(ours.dense_BX == theirs.dense_BX) < 0.01 and not np.array_equal(ours.label_B, theirs.label_B)
    assert not np.array_equal(first.rows_by_popularity(0), other.rows_by_popularity(0))
    assert not np.allclose(first._teacher.hidden_XH, other._teacher.hidden_XH)


@pytest.mark.parametrize("zipf", [0.0, 1.1, 2.0])
def test_popularity_is_zipf_and_not_the_order_of_rows(zipf: float) -> None:
    clicks = PlantedClicks(60_000, columns=3, rows=50, zipf=zipf, dense=0, multi_valued=1)
    share = np.arange(1, 51) ** -zipf
    share /= share.sum()
    batch = clicks.batch(0, 60_000)
    for column in range(3):
        rows = clicks.rows_by_popularity(column)
        low, high = clicks.offset_F[column : column + 2]
        assert np.array_equal(np.sort(rows), np.arange(low + 2, high))
        assert not np.array_equal(rows, np.sort(rows))
        counts = np.bincount(batch.id_M[(batch.id_M >= low) & (batch.id_M < high)], minlength=high)[rows]
        assert chisquare(counts, share * counts.sum()).pvalue > 1e-4
    assert not np.array_equal(*(clicks.rows_by_popularity(c) - clicks.offset_F[c] for c in (0, 1)))


def test_columns_and_examples_are_drawn_apart() -> None:
    clicks = PlantedClicks(20_000, columns=2, rows=4, zipf=0, dense=2)
    batch = clicks.batch(0, 20_000)
    ids = batch.id_M.reshape(-1, 2) - clicks.offset_F[:2] - 2
    assert chisquare(np.bincount(ids[:, 0] * 4 + ids[:, 1])).pvalue > 1e-4
    assert chisquare(np.bincount(ids[1:, 0] * 4 + ids[:-1, 0])).pvalue > 1e-4
    np.testing.assert_allclose(np.cov(batch.dense_BX.T), np.eye(2), atol=0.04)
    np.testing.assert_allclose(batch.dense_BX.mean(axis=0), 0, atol=0.04)


def test_rate_and_strength_are_met() -> None:
    for rate, strength in ((0.25, 1.5), (0.05, 1.0), (0.6, 3.0)):
        clicks = PlantedClicks(50_000, rows=1000, rate=rate, strength=strength)
        p = clicks.probability(0, 50_000)
        assert p.mean() == pytest.approx(rate, abs=0.01)
        assert np.log(p / (1 - p)).std() == pytest.approx(strength, rel=0.05)


def test_the_parts_have_their_shares() -> None:
    clicks = PlantedClicks(50_000, rows=1000)
    parts_B3 = clicks._parts(clicks._teacher, clicks.batch(0, 50_000)) * clicks._teacher.weight_3
    shares = parts_B3.var(axis=0)
    np.testing.assert_allclose(shares / shares.sum(), [0.6, 0.2, 0.2], atol=0.03)


def test_no_signal_is_a_coin() -> None:
    scores = PlantedClicks(1000, columns=2, rows=5, strength=0, rate=0.3).bayes(0, 1000)
    assert (scores.rate, scores.normalized_entropy, scores.auc) == pytest.approx((0.3, 1.0, 0.5), rel=1e-9)


@pytest.mark.parametrize("zipf", [1.1, 4.0])
def test_bayes_scores_against_drawn_labels(zipf: float) -> None:
    """zipf 4, no dense columns: many examples are alike, so their probabilities are tied."""
    options: dict[str, Any] = {"columns": 3, "rows": 20, "dense": 0} if zipf == 4 else {"columns": 10, "rows": 100}
    clicks = PlantedClicks(2000, zipf=zipf, **options)
    scores, p = clicks.bayes(0, 2000), clicks.probability(0, 2000)
    rng = np.random.default_rng(1)
    drawn = [(rng.random(2000) < p).astype(int) for _ in range(400)]
    for known, score in ((scores.log_loss, log_loss), (scores.auc, auc)):
        values = [score(label, p) for label in drawn]
        assert known == pytest.approx(np.mean(values), abs=4 * np.std(values) / 20)
    assert scores.rate == pytest.approx(p.mean(), rel=1e-12)


def test_expected_auc_by_counting_pairs() -> None:
    clicks = PlantedClicks(60, columns=2, rows=3, dense=0)
    p = clicks.probability(0, 60)
    assert len(np.unique(p)) < 10
    right = pairs = 0.0
    for i in range(60):
        for j in range(60):
            if i != j:
                pairs += p[i] * (1 - p[j])
                right += p[i] * (1 - p[j]) * ((p[i] > p[j]) + 0.5 * (p[i] == p[j]))
    assert clicks.bayes(0, 60).auc == pytest.approx(right / pairs, rel=1e-12)


def test_own_labels_score_as_the_floor_says() -> None:
    clicks = PlantedClicks(100_000, rows=1000)
    floor = clicks.bayes(0, 100_000)
    found = evaluate_clicks(clicks.batch(0, 100_000).label_B, clicks.probability(0, 100_000))
    assert found.log_loss == pytest.approx(floor.log_loss, abs=0.005)
    assert found.auc == pytest.approx(floor.auc, abs=0.008)
    assert found.calibration == pytest.approx(1, abs=0.025)
    assert 0.7 < floor.normalized_entropy < 0.85


def test_the_file_reads_as_the_stream(tmp_path: Path) -> None:
    clicks = PlantedClicks(3000, **SMALL)
    schema = write_tsv(clicks, tmp_path / "clicks.tsv", 100, 900)
    assert schema == tmp_path / "clicks.toml"
    read = read_clicks(tmp_path / "clicks.tsv", schema, cache_dir=tmp_path / "cache")
    ours, theirs = clicks.batch(100, 900), read.batch(0, 800)
    assert read.num_examples == 800 and read.columns == clicks.columns and read.dense_names == clicks.dense_names
    assert read.is_mean_F.tolist() == clicks.is_mean_F.tolist()
    assert same((ours.label_B, ours.dense_BX, ours.start_P), (theirs.label_B, theirs.dense_BX, theirs.start_P))
    pairs = set(zip(ours.id_M.tolist(), theirs.id_M.tolist(), strict=True))
    assert len(pairs) == len(set(ours.id_M.tolist())) == len(set(theirs.id_M.tolist()))
    header, first = (tmp_path / "clicks.tsv").read_text().splitlines()[:2]
    assert header.split("\t") == ["label", "I1", "I2", "I3", "I4", "I5", *clicks.columns]
    values = first.split("\t")
    bag = ours.id_M[: ours.start_P[7]] - np.repeat(clicks.offset_F[:7], np.diff(ours.start_P[:8]))
    assert len(values) == 13 and [int(v) for cell in values[6:] for v in cell.split("|") if v] == bag.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_examples": 0}, "num_examples must be a whole number from 1"),
        ({"columns": 0}, "columns must be"),
        ({"rows": 0}, "rows must be"),
        ({"rows": 2.5}, "rows must be"),
        ({"zipf": -1}, "zipf must be"),
        ({"zipf": float("nan")}, "zipf must be"),
        ({"dense": -1}, "dense must be"),
        ({"columns": 3, "multi_valued": 4}, "multi_valued must be a whole number from 0 to 3"),
        ({"longest": 0}, "longest must be"),
        ({"factors": 0}, "factors must be"),
        ({"rate": 0}, "rate must be"),
        ({"rate": 1}, "rate must be"),
        ({"strength": -1}, "strength must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PlantedClicks(**({"num_examples": 10} | options))


def test_bad_ranges(tmp_path: Path) -> None:
    clicks = PlantedClicks(10, columns=2, rows=3)
    for start, stop in ((-1, 2), (3, 2), (0, 11)):
        for call in (
            clicks.batch,
            clicks.probability,
            clicks.bayes,
            lambda a, b: write_tsv(clicks, tmp_path / "x.tsv", a, b),
        ):
            with pytest.raises(InputError, match=r"0 <= start|two examples"):
                call(start, stop)
    with pytest.raises(InputError, match="two examples"):
        clicks.bayes(0, 1)
    with pytest.raises(InputError, match="column must be"):
        clicks.rows_by_popularity(2)
    with pytest.raises(InputError, match=r"\.toml: the schema"):
        write_tsv(clicks, tmp_path / "clicks.toml")
    assert not list(tmp_path.iterdir())
