"""The task of recommending: models of implicit feedback."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from any2vec.errors import DataError
from any2vec.models.recommend.config import RECOMMEND_MODELS
from any2vec.train.task import RUN, Nouns, Task
from any2vec.types import as_reading

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.options.planning import ItemShape
    from any2vec.plan.cost.size import Size
    from any2vec.tasks.recommend.program import PreparedInteractions
    from any2vec.train.spec import Hooks, Request, RunSpec

_ONE = "models of implicit feedback train on one host, whose memory holds the rows of hundreds of millions of pairs"
_MEMORY = "its rows are held in memory: a pair may touch any of them"
_PAIR_BYTES = {"bpr": 10, "als": 24, "item2vec": 4}
"""of a pair, in memory"""


def _check_several(model: Any, num_users: int, num_items: int) -> None:
    """DataError where there is nothing to choose among, or nobody to learn from."""
    if num_items < 2:
        raise DataError("There is 1 item in the interactions; a model ranks items, and needs 2 or more.")
    if num_users < 2 and not model.is_cosine:
        raise DataError(
            f"There is 1 user in the interactions; {model.name} learns from what users have in common, and needs 2 or "
            "more; item2vec learns from the items of one."
        )


class Recommend(Task):
    """BPR, ALS and item2vec."""

    name = "recommend"
    title = "interactions"
    rank = 35
    models: ClassVar = RECOMMEND_MODELS
    about: ClassVar = {
        "bpr": "items for users, by Bayesian personalized ranking (BPR)",
        "als": "items for users, by alternating least squares (ALS)",
        "item2vec": "items for users, by skip-gram over the items of each user",
    }
    has: ClassVar = {"run": RUN}
    reading: ClassVar = {"interactions": "any2vec.data.interactions.options:InteractionOptions"}
    lacks: ClassVar = {
        **dict.fromkeys(("hosts", "logical_hosts", "link", "host_timeout", "ray", "restarts"), _ONE),
        **dict.fromkeys(("sync", "scheme", "rounds_per_epoch", "bits", "overlap", "servers", "sync_servers"), _ONE),
        **dict.fromkeys(("dual", "credits", "staleness_bound", "partition", "read"), _ONE),
        **dict.fromkeys(("memory", "order", "cache", "cache_rows"), _MEMORY),
        "validate": "lists are judged behind the training, by any2vec evaluate --task recommend",
        "init": "users and items of other vectors would have to be told apart",
        "cache_dir": "interactions are read anew by each run",
    }  # fmt: skip
    input: ClassVar = (
        "interactions (TSV, CSV, Parquet, Arrow, JSON Lines): user, item[, weight]; files, globs, - for standard input"
    )

    def nouns(self, model: Any) -> Nouns:
        return Nouns("items", "interactions")

    def read(self, spec: RunSpec, hooks: Hooks) -> PreparedInteractions:
        from any2vec.data.interactions.interactions import read_interactions
        from any2vec.data.io.files import fingerprint
        from any2vec.tasks.recommend.program import PreparedInteractions

        data = read_interactions(spec.data, spec.reading.get("interactions"), progress=as_reading(hooks.stage))
        _check_several(spec.model, data.report.num_users, data.report.num_items)
        digest = fingerprint(data.indptr, data.item_E, data.weight_E, data.users.arena, data.items.arena)
        said = {
            name: value for name, value in data.report.as_dict().items() if value or name not in ("comments", "notes")
        }
        if header := said.pop("header"):  # by another name than that of edges, of which all runs make a remark
            said["first_line"] = header
        metadata = {"kind": "interactions", **said, "digest": digest}
        return PreparedInteractions(data, metadata)

    def program(self, request: Request, data: Any, transport: Transport) -> Any:
        from any2vec.tasks.recommend.program import RecommendProgram

        return RecommendProgram(request, data, transport)

    def scorer(self, folder: Path) -> Any:
        from any2vec.models.recommend.recommender import Recommender

        return Recommender.load(folder)

    def size(self, spec: RunSpec, metadata: Mapping[str, Any]) -> Size:
        from any2vec.plan.cost.size import Size, TableSize

        users, items, pairs = (metadata[f"num_{noun}"] for noun in ("users", "items", "interactions"))
        dim, model = spec.model.dim, spec.model
        rows = (("items", items), ("output", items)) if model.is_cosine else (("items", items), ("users", users))
        names = 24 * (users + items)
        return Size(
            tables=tuple(TableSize(name=name, rows=count, columns=dim) for name, count in rows),
            resident={"interactions": _PAIR_BYTES[model.name] * pairs, "names": 3 * names},
            whole_bytes=12 * pairs + (4 * dim * users if model.is_cosine else 0), items=pairs,
            result_bytes=4 * dim * (users + items * (1 + model.is_cosine)) + names,
        )  # fmt: skip

    def metadata_of(self, spec: RunSpec, shape: ItemShape) -> Mapping[str, Any]:
        """As many users as items."""
        rows = shape.num_rows
        return {"num_users": rows, "num_items": rows, "num_interactions": shape.num_items(20)}

    def lines(self, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
        data = summary["data"]
        of = f"{data['num_interactions']:,} of {data['num_users']:,} users"
        weights = "each of weight 1"
        if data["weighted"]:
            weights = "with weights"
            if summary["model"] != "als" and data.get("repeated"):  # which alone make weights of data without
                weights = f"{data['repeated']:,} repeated; {summary['model']} makes nothing of repeats and weights"
            elif summary["model"] != "als":
                weights += f", of which {summary['model']} makes nothing"
        found = [("interactions", f"{of}, {weights}")]
        if header := data.get("first_line"):
            found.append(("note", f"first line taken as a header (--no-header reads it): {header}"))
        return found

    def next_step(self, model: Any, folder: Path, keys: Sequence[str]) -> str:
        command = ["any2vec", "recommend", str(folder), "USER", "--exclude-seen", "INTERACTIONS"]
        return f"To recommend items to a user:  {shlex.join(command)}"
