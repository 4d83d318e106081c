"""How often the pairs of a model of sequences move rows, and along which others: what the curvature of a round is of.

A kept item makes window + 1 pairs on average, each with one positive and `num_negatives` rows of "output", along all of
which its input row moves; an output row moves in the pairs whose positive it is, and where it is drawn as noise. CBOW's
output rows move along means of input rows, whose curvature is at most that of the rows themselves (squares are convex):
it is taken for larger than it is, the careful side.
"""

from __future__ import annotations

import numpy as np

from any2vec.models.words.config import SequenceModel
from any2vec.models.words.rates import linear_rate
from any2vec.plan.cost.occupancy import NOISE_POWER
from any2vec.sync.base.curvature import PairSteps


def pair_steps(model: SequenceModel, count_V: np.ndarray, keep_V: np.ndarray, rounds: int, epochs: int) -> PairSteps:
    """Of a run by negative sampling with so many rounds an epoch.

    count_V: occurrences of items in an epoch; keep_V: the share of them that subsampling keeps.
    """
    kept_V = count_V * np.minimum(keep_V, 1.0)
    noise_V = count_V.astype(np.float64) ** NOISE_POWER
    share_V, noise_V = kept_V / max(kept_V.sum(), 1.0), noise_V / noise_V.sum()
    each = 1 + model.num_negatives
    output_V = (share_V + model.num_negatives * noise_V) / each
    updates = kept_V.sum() * (model.window + 1) * each / rounds
    return PairSteps(
        meets={"input": "output", "output": "input"},
        weights={"input": share_V, "output": output_V},
        updates={"input": updates * share_V, "output": updates * output_V},
        rate=lambda number: linear_rate(model, min(1.0, (number + 0.5) / (rounds * epochs))),
    )
