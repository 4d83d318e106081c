"""From files of clicks to what a host needs; and what a call of `fit` may ask of a model of clicks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.errors import InputError
from any2vec.sync.options.run_hosts import RunHosts
from any2vec.sync.options.trainers import TrainerOptions
from any2vec.train.words.prepare import Stage

if TYPE_CHECKING:
    from any2vec.data.clicks.clicks import Clicks
    from any2vec.data.clicks.schema import ClickSchema
    from any2vec.models.clicks.config import ClickModel


@dataclass(frozen=True)
class PreparedClicks:
    """Examples, ready to be trained on."""

    clicks: Clicks
    facts: dict[str, Any]
    """what they are, for the report and for a resumed run to compare"""


def prepare_clicks(
    data: Any, schema: ClickSchema | None, cache_dir: Path | None, stage: Stage | None
) -> PreparedClicks:
    """Read files of clicks, or open those that are encoded.

    Raises:
        InputError: a schema is missing, or does not fit the encoded data.
        DataError: the files cannot be read, or do not fit the schema.
    """
    from any2vec.data.clicks.clicks import Clicks, read_clicks

    def told(done: int, total: int | None) -> None:
        if stage is not None:
            stage("reading", done, total)

    is_stream = hasattr(data, "batch") and not isinstance(data, Clicks)
    clicks = data if is_stream else read_clicks(data, schema, cache_dir=cache_dir, progress=told)
    facts = {
        "kind": "clicks", "num_examples": clicks.num_examples, "num_clicks": clicks.num_clicks,
        "columns": list(clicks.columns), "dense": list(clicks.dense_names), "num_rows": clicks.num_rows,
        "digest": clicks.digest,
    }  # fmt: skip
    return PreparedClicks(clicks, facts)


def schema_of(schema: ClickSchema | str | Path) -> ClickSchema:
    """The schema that is given, named, or stored in a TOML file.

    Raises:
        InputError, DataError: there is none.
    """
    from any2vec.data.clicks.schema import ClickSchema

    return ClickSchema.of(schema)


def schema_from_dict(found: dict[str, Any] | None) -> ClickSchema | None:
    """The schema whose `to_dict` this is."""
    from any2vec.data.clicks.schema import ClickSchema

    return None if found is None else ClickSchema.from_dict(found)


def check_clicks(
    model: ClickModel, hosts: RunHosts, threads: int, text: Any, graph: Any, init: Any, on_epoch: Any
) -> None:
    """Raise InputError for an argument of `fit` that does not go with a model of clicks."""
    for name, value in (("text", text), ("graph", graph), ("init", init), ("on_epoch", on_epoch)):
        if value is not None:
            raise InputError(f"{name} does not apply to models of clicks; leave it out.")
    if isinstance(hosts, TrainerOptions) and hosts.is_in_step and threads > 1:
        raise InputError(
            f"sync {hosts.sync} with cache {hosts.cache} goes step by step, with one thread a trainer, got threads = "
            f"{threads}; start more hosts instead."
        )
    if isinstance(hosts, TrainerOptions) and hosts.row_cache.kind == "het" and model.optimiser == "adam":
        raise InputError(
            f"cache {hosts.cache} adds up what trainers change in a row, and moments of adam do not add up; train with "
            "optimiser adagrad or sgd, or with cache none."
        )
