"""PIP loss equals the plain twin with V x V arrays, adds up over shards, and knows what is planted."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from any2vec.data.io.direct import Spill
from any2vec.data.text.text import encode_text
from any2vec.data.vocab.vocabulary import keep_probabilities
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError
from any2vec.evaluate import TargetOptions, compare_embeddings, evaluate_pip
from any2vec.evaluate.words.pip import PipSums, balanced, options_of, pip_against, pip_between, pip_sums
from any2vec.evaluate.words.target import RowBlocks, count_pairs
from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
from naive.text import pip as naive

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def text_of(num_lines: int = 400, seed: int = 1) -> list[str]:
    """Sentences of one of four topics of six words each, and of words of no topic."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{word}" for word in range(28)])
    topic = rng.integers(0, 4, (num_lines, 1))
    drawn = np.where(rng.random((num_lines, 12)) < 0.3, rng.integers(24, 28, (num_lines, 12)), 0)
    drawn = np.where(drawn > 0, drawn, 6 * topic + rng.integers(0, 6, (num_lines, 12)))
    return [" ".join(words[line]) for line in drawn]


def vectors(keys: list[str], dim: int, seed: int, output: bool = True, scale: float = 0.5) -> Embeddings:
    rng = np.random.default_rng(seed)
    rows = scale * rng.standard_normal((2, len(keys), dim)).astype(np.float32)
    return Embeddings(keys, rows[0], rows[1] if output else None)


def twin_target(lines: list[str], options: TargetOptions, keys: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(SPPMI, counts, shifted PMI) of the words `keys`, V x V."""
    corpus = encode_text(lines)
    types = list(corpus.vocabulary.keys)
    words_V = np.array([corpus.vocabulary.counts[types.index(key)] for key in keys])
    row = [keys.index(key) if key in keys else -1 for key in types]
    keep = np.minimum(keep_probabilities(words_V, options.subsample) * 2.0**32, 2.0**32).astype(np.uint64)
    count_VV = np.zeros((len(keys), len(keys)))
    for epoch in range(options.passes):
        drawn = naive.pair_counts(
            corpus.tokens.tolist(), row, keep.tolist(), int(stream_key(options.seed, PURPOSE_TOKEN, epoch)),
            options.window,
        )  # fmt: skip
        for part in drawn:
            for pair, weight in part.items():
                count_VV[pair] += weight
    setting = (options.num_negatives, options.noise_power)
    return naive.sppmi(count_VV, words_V, *setting), count_VV, naive.shifted_pmi(count_VV, words_V, *setting)


CASES = [
    TargetOptions(subsample=0, num_negatives=1, noise_power=1.0, window=2),
    TargetOptions(subsample=3e-2, num_negatives=1, passes=3, seed=5),
    TargetOptions(subsample=0, num_negatives=2, min_count=160),
]


@pytest.mark.parametrize("options", CASES)
def test_all_figures_equal_the_twin(options: TargetOptions) -> None:
    lines = text_of()
    corpus = encode_text(lines)
    keys = [*list(corpus.vocabulary.truncate(options.min_count).keys)[::-1][:-2], "absent"]
    embeddings = vectors(keys, 5, 3)
    found = evaluate_pip(embeddings, lines, options=options)
    shared = [key for key in corpus.vocabulary.truncate(options.min_count).keys if key in keys]
    target, count_VV, shifted = twin_target(lines, options, shared)
    assert 0 < (target > 0).mean() < 1
    row = embeddings.rows(shared)
    mine, output = (table[row].astype(np.float64) for table in (embeddings.vectors, embeddings.output))
    products = naive.balanced(mine, output)
    norm = np.linalg.norm(target)
    assert found.loss == pytest.approx(np.linalg.norm(products - target), rel=1e-6)
    assert found.relative == pytest.approx(np.linalg.norm(products - target) / norm, rel=1e-6)
    assert found.relative_unbalanced == pytest.approx(naive.pip_loss(mine, target) / norm, rel=1e-9)
    assert found.target_norm == pytest.approx(norm, rel=1e-12)
    scales = np.linspace(0, 2 * found.scale + 0.1, 401)
    least = min(np.linalg.norm(scale * products - target) for scale in scales) / norm
    assert found.relative_scaled <= least + 1e-9 and found.relative_scaled == pytest.approx(least, rel=1e-3)
    svd, optimum = naive.best_losses(target, 5)
    assert (found.svd, found.optimum) == (pytest.approx(svd / norm, rel=1e-5), pytest.approx(optimum / norm, rel=1e-5))
    seen = count_VV > 0
    error = ((mine @ output.T)[seen] - shifted[seen]) ** 2
    assert found.product_error == pytest.approx(np.sqrt(np.average(error, weights=count_VV[seen])), rel=1e-6)
    of_zero = np.sqrt(np.average(shifted[seen] ** 2, weights=count_VV[seen]))
    assert found.product_error_of_zero == pytest.approx(of_zero, rel=1e-9)
    assert (found.words, found.pairs, found.dim) == (len(shared), (target > 0).sum(), 5)


def test_without_memory_all_lies_in_files_and_is_the_same(tmp_path: Path) -> None:
    keys = [f"w{word}" for word in range(28)]
    options = TargetOptions(num_negatives=1, subsample=0)
    spill = Spill(0, tmp_path)
    assert evaluate_pip(vectors(keys, 4, 1), text_of(), options=options, spill=spill) == evaluate_pip(
        vectors(keys, 4, 1), text_of(), options=options
    )
    assert spill.num_files >= 4 and not list(tmp_path.iterdir())


def test_with_the_marginals_as_noise_it_is_sppmi() -> None:
    """Without subsampling, in sentences far longer than the window, counts of words are marginals over pairs."""
    rng = np.random.default_rng(2)
    probability = np.array([0.4, 0.3, 0.2, 0.1])
    corpus = encode_text([rng.choice(4, 20_000, p=probability).tolist() for _ in range(4)])
    options = TargetOptions(subsample=0, num_negatives=1, noise_power=1.0, min_count=1)
    with Spill() as spill:
        pairs = count_pairs(corpus, lambda key: True, options, spill)
        log_pairs, log_noise = pairs.offsets()
        share = np.exp(log_pairs) / np.exp(log_pairs).sum()
        np.testing.assert_allclose(share, np.exp(log_noise), rtol=1e-3)
        pmi = [
            np.log(weight * np.exp(log_pairs).sum() / np.exp(log_pairs[row] + log_pairs[other]))
            for block in pairs.counts.blocks()
            for row, other, weight in zip(*pairs.cells(block), strict=True)
        ]
    assert np.abs(pmi).max() < 0.05  # words are independent


def test_the_target_is_where_the_loss_of_training_is_least() -> None:
    """The gradient of the expected loss of skip-gram vanishes at x_w y_c = shifted PMI."""
    options = TargetOptions(subsample=0, num_negatives=3, window=3)
    corpus = encode_text(text_of())
    keys = list(corpus.vocabulary.keys)
    _, count_VV, shifted = twin_target(text_of(), options, keys)
    words_V = np.asarray(corpus.vocabulary.counts).astype(float)
    noise = words_V**0.75 / (words_V**0.75).sum()
    seen = count_VV > 0
    sigmoid = 1 / (1 + np.exp(-np.where(seen, shifted, 0)))
    gradient = -count_VV * (1 - sigmoid) + 3 * count_VV.sum(1, keepdims=True) * noise * sigmoid
    assert np.abs(gradient[seen]).max() < 1e-9 * count_VV.max()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), rows=st.integers(1, 12), dim=st.integers(1, 6), cuts=st.lists(st.integers(0, 12)))
def test_sums_of_shards_add_up(seed: int, rows: int, dim: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    vector_VD = rng.standard_normal((rows, dim))
    dense = rng.standard_normal((rows, rows)) * (rng.random((rows, rows)) < 0.5)
    dense = dense + dense.T
    edges = [0, *sorted(cut for cut in cuts if cut < rows), rows]
    spans = list(itertools.pairwise(edges))
    target = RowBlocks([csr_array(dense[start:stop]) for start, stop in spans], rows)
    shards = [pip_sums(vector_VD[start:stop], csr_array(dense[start:stop]), vector_VD) for start, stop in spans]
    total = sum(shards[1:], shards[0])
    whole = pip_against(vector_VD, target)
    loss = naive.pip_loss(vector_VD, dense)
    assert total.loss() == pytest.approx(loss, rel=1e-6, abs=1e-6) == whole.loss()
    assert target.norm == pytest.approx(np.linalg.norm(dense))
    np.testing.assert_allclose(target @ vector_VD, dense @ vector_VD, atol=1e-12)


def test_zero_has_one_and_a_rotation_changes_nothing() -> None:
    lines = text_of()
    keys = [f"w{word}" for word in range(28)]
    one = vectors(keys, 6, 1, output=False)
    turned, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 6)))
    options = TargetOptions(num_negatives=1, subsample=0)
    figures = [
        evaluate_pip(Embeddings(keys, rows), lines, options=options, references=False)
        for rows in (one.vectors, one.vectors @ turned.astype(np.float32), 0 * one.vectors)
    ]
    assert figures[0].relative == pytest.approx(figures[1].relative, rel=1e-6)
    assert figures[2].relative == figures[2].relative_scaled == 1.0 == figures[2].zero
    assert figures[0].svd is None and figures[0].optimum is None and not figures[0].is_balanced
    assert figures[0].product_error is None


def test_the_order_of_good_and_bad() -> None:
    """Factors of the target reach the optimum; the same of other words, and noise, are worse, and far worse."""
    lines, dim = text_of(), 4
    keys = [f"w{word}" for word in range(28)]
    options = TargetOptions(num_negatives=1, subsample=0)
    with Spill() as spill:
        target = count_pairs(encode_text(lines), keys.__contains__, options, spill)
        value, vector = target.sppmi().top_pairs(dim, "LA")
        keys = target.keys
    good = Embeddings(keys, vector * np.sqrt(value))
    shuffled = Embeddings([*keys[5:], *keys[:5]], good.vectors)
    found = {
        name: evaluate_pip(one, lines, options=options)
        for name, one in (("good", good), ("shuffled", shuffled), ("random", vectors(keys, dim, 1, scale=1.0)))
    }
    assert found["good"].relative == pytest.approx(found["good"].optimum, rel=1e-5)
    assert found["good"].relative == pytest.approx(found["good"].relative_scaled, rel=1e-5)
    assert found["good"].optimum <= found["good"].svd + 1e-9 < 0.7
    assert found["good"].relative < 1 < found["shuffled"].relative < found["random"].relative
    assert found["good"].relative_scaled + 0.2 < found["shuffled"].relative_scaled <= 1


def test_many_negative_eigenvalues() -> None:
    """Pairs of words that come only with each other: half of the eigenvalues are negative, and the best vectors skip
    them."""
    lines = [f"a{pair} b{pair}" for pair in range(20) for _ in range(30 + pair)]
    keys = [f"{side}{pair}" for side in "ab" for pair in range(20)]
    options = TargetOptions(num_negatives=1, subsample=0, noise_power=1.0, window=1)
    found = evaluate_pip(vectors(keys, 16, 1), lines, options=options)
    target, _, _ = twin_target(lines, options, keys)
    _, optimum = naive.best_losses(target, 16)
    assert found.optimum == pytest.approx(optimum / np.linalg.norm(target), rel=1e-5)
    assert found.svd > found.optimum + 0.1  # which factors of equal strength the SVD keeps is chance


@pytest.mark.parametrize("rank", [2, 5])
def test_balancing_undoes_any_mixing(rank: int) -> None:
    """W G and C G^-T have the same product: balanced, they have the same inner products; of any rank."""
    rng = np.random.default_rng(rank)
    base, output = rng.standard_normal((2, 30, rank)) @ rng.standard_normal((2, rank, 5))
    mixing = rng.standard_normal((5, 5))
    expected = naive.balanced(base, output)
    for pair in ((base, output), (base @ mixing, output @ np.linalg.inv(mixing).T)):
        factors = balanced(*pair)
        np.testing.assert_allclose(factors @ factors.T, expected, atol=1e-6 * np.abs(expected).max())


def test_between_two_tables(tmp_path: Path) -> None:
    keys = [f"w{word}" for word in range(40)]
    one, other = vectors(keys, 6, 1), vectors([*keys[30:], *keys[:25], "x"], 9, 2)
    shared = [key for key in one.keys if key in other]
    a, b = (table.vectors[table.rows(shared)].astype(np.float64) for table in (one, other))
    c, d = (table.output[table.rows(shared)].astype(np.float64) for table in (one, other))
    other.save(tmp_path / "other")
    found = evaluate_pip(one, tmp_path / "other")
    assert found == compare_embeddings(one, other)
    norm = np.linalg.norm(b @ b.T)
    assert found.relative_unbalanced == pytest.approx(np.linalg.norm(a @ a.T - b @ b.T) / norm)
    ours, theirs = naive.balanced(a, c), naive.balanced(b, d)
    assert found.relative == pytest.approx(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs), rel=1e-6)
    assert found.loss == pytest.approx(np.linalg.norm(ours - theirs), rel=1e-6)
    assert (found.words, found.dim, found.other_dim) == (35, 6, 9)
    turned, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 6)))
    same = compare_embeddings(one, Embeddings(keys, one.vectors @ turned.astype(np.float32)))
    assert same.relative < 1e-3 and not same.is_balanced
    twice = compare_embeddings(Embeddings(keys, 2 * one.vectors), Embeddings(keys, one.vectors))
    assert twice.relative == pytest.approx(3) and twice.relative_scaled == pytest.approx(0, abs=1e-6)
    assert twice.scale == pytest.approx(0.25)
    assert pip_between(a, a).loss() < 1e-6 * norm


def test_the_sums_of_nothing() -> None:
    nothing = PipSums(np.zeros((2, 2)), 0.0, 4.0)
    assert nothing.best_scale == 0.0 and nothing.relative() == 1.0


def test_options_come_from_the_vectors() -> None:
    keys = ["a", "b"]
    trained = Embeddings(keys, np.eye(2), meta={"model": {"window": 3, "num_negatives": 9, "dim": 2, "min_count": 2}})
    assert options_of(trained) == TargetOptions(window=3, num_negatives=9, min_count=2)
    assert options_of(trained, window=4).window == 4
    assert options_of(Embeddings(keys, np.eye(2))) == TargetOptions()
    triples = Embeddings(keys, np.eye(2), meta={"model": {"model": "complex", "num_negatives": None}})
    assert options_of(triples) == TargetOptions()
    tree = Embeddings(keys, np.eye(2), meta={"model": {"objective": "hierarchical", "num_negatives": 5}})
    with pytest.raises(InputError, match="hierarchical"):
        options_of(tree)
    assert options_of(tree, num_negatives=2).num_negatives == 2


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    keys = [f"w{word}" for word in range(28)]
    good = vectors(keys, 3, 1)
    few = TargetOptions(num_negatives=1, subsample=0)
    with pytest.raises(DataError, match="Only 0 of the 28"):
        evaluate_pip(vectors(["x", "y"], 3, 1), text_of(), options=few)
    with pytest.raises(DataError, match="num-negatives"):
        evaluate_pip(good, text_of(), options=TargetOptions(num_negatives=400, subsample=0))
    with pytest.raises(DataError, match="near each other"):
        evaluate_pip(good, [["w1"]] * 9 + [["w2"]] * 9, options=few)
    with pytest.raises(DataError, match="NaN"):
        evaluate_pip(Embeddings(keys, np.full((28, 2), np.nan)), text_of(), options=few)
    with pytest.raises(DataError, match="no key in common"):
        compare_embeddings(good, vectors(["x"], 2, 1))
    with pytest.raises(DataError, match="zeros"):
        compare_embeddings(good, Embeddings(keys, np.zeros((28, 2))))
    with pytest.raises(InputError, match="other vectors"):
        evaluate_pip(good, good, options=few)
    with pytest.raises(InputError, match="noise_power"):
        TargetOptions(noise_power=2)
