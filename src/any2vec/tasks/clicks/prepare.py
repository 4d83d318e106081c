"""From files of clicks to what a host needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.types import Stage, as_reading

if TYPE_CHECKING:
    from any2vec.data.clicks.clicks import Clicks
    from any2vec.data.clicks.schema import ClickSchema


@dataclass(frozen=True)
class PreparedClicks:
    """Examples, ready to be trained on."""

    clicks: Clicks
    metadata: dict[str, Any]
    """what they are, for the report and for a resumed run to compare"""

    @property
    def num_examples(self) -> int:
        """Those that train; the rest, behind them, are held out."""
        return int(self.metadata["num_examples"])


def prepare_clicks(
    data: Any, schema: ClickSchema | None, cache_dir: Path | None, stage: Stage | None, share: float | None = None
) -> PreparedClicks:
    """Read files of clicks, or open those that are encoded. share: of the last examples, held out to validate on.

    Raises:
        InputError: a schema is missing, or does not fit the encoded data.
        DataError: the files cannot be read, or do not fit the schema.
    """
    from any2vec.data.clicks.clicks import Clicks, read_clicks
    from any2vec.data.io.files import is_table
    from any2vec.tasks.clicks.validation import training_part

    is_stream = hasattr(data, "batch") and not (isinstance(data, Clicks) or is_table(data))
    if is_stream:
        clicks = data
    else:
        clicks = read_clicks(data, schema, cache_dir=cache_dir, progress=as_reading(stage), held_out=share)
    kept, num_clicks = training_part(clicks, share)
    if kept < clicks.num_examples and not is_stream:
        clicks = clicks.counted_to(kept)
    metrics = {
        "kind": "clicks", "num_examples": kept, "num_clicks": num_clicks,
        "columns": list(clicks.columns), "dense": list(clicks.dense_names), "num_rows": clicks.num_rows,
        "digest": clicks.digest, **({} if share is None else {"num_validation": clicks.num_examples - kept}),
    }  # fmt: skip
    return PreparedClicks(clicks, metrics)
