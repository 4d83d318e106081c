"""One host's run of a model of implicit feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.data.interactions.interactions import Interactions
from any2vec.data.vocab.user_keys import key_meta
from any2vec.embeddings import Embeddings
from any2vec.models.recommend.learners import make_learner, warm_up
from any2vec.models.recommend.recommender import Recommender, mean_items
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.train.in_memory.program import InMemoryProgram
from any2vec.train.loop import LocalDriver
from any2vec.train.progress import Recorder
from any2vec.train.result import Result, comments_remark, remarks
from any2vec.train.spec import Request


@dataclass(frozen=True)
class PreparedInteractions:
    """Interactions, ready to be trained on."""

    interactions: Interactions
    metadata: dict[str, Any]
    """what they are, for the report and for a resumed run to compare"""


class RecommendProgram(InMemoryProgram):
    """Rows of users and items."""

    learner: Any

    def __init__(self, request: Request, prepared: PreparedInteractions, transport: Transport) -> None:
        super().__init__(request, transport)
        self.data, self.metadata = prepared.interactions, prepared.metadata
        model, run = request.spec.model, request.spec.run
        self.learner = learner = make_learner(model, self.data, request.threads, run.seed)
        if self.checkpoint is not None:
            for name, table in learner.tables.items():
                table[:] = self.checkpoint.array(name, table.shape)
        self.schedule = self._resumed(
            EpochSchedule(bounds=(0, learner.num_positions), epochs=run.epochs, unit=learner.unit, piece=learner.piece),
            1,
        )
        self.driver = LocalDriver()

    def compile(self) -> None:
        warm_up(self.request.spec.model)

    def agreed(self) -> dict[str, np.ndarray]:
        tables: dict[str, np.ndarray] = self.learner.tables
        return tables

    def result(self, agreed: dict[str, np.ndarray]) -> Result:
        model, data = self.request.spec.model, self.data
        item_ID = agreed["input" if model.is_cosine else "items"]
        user_UD = mean_items(data, item_ID) if model.is_cosine else agreed["users"]
        meta = {"model": model.as_dict()} | key_meta(data.items)
        embeddings = Embeddings(data.items, item_ID, agreed.get("output"), data.counts(), meta=meta)
        options = self.request.spec.reading.get("interactions")
        scorer = Recommender(model, data.users, data.items, user_UD, item_ID, agreed.get("bias"), options)
        return Result(embeddings, scorer=scorer, parts=scorer.parts())

    def gather_metrics(self, recorder: Recorder) -> dict[str, Any]:
        return {
            "users": len(self.data.users), "warnings": [*remarks(self.metadata), *comments_remark(self.metadata)],
        }  # fmt: skip
