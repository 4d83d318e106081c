"""What a run of a model of triples will need, its table in memory or within a budget: read off triples, or given."""

from __future__ import annotations

from typing import Any

from any2vec.data.triples.options import TripleOptions
from any2vec.data.triples.triples import TripleReport
from any2vec.errors import InputError
from any2vec.machine import usable_cores
from any2vec.models.triples.config import TripleModel
from any2vec.plan.cost.table_run import TableRun
from any2vec.plan.order.buffer import BufferPlan
from any2vec.train.out_of_core.table_budget import plan_budget
from any2vec.train.out_of_core.table_options import TableOptions
from any2vec.train.sizing import RunSettings
from any2vec.train.triples.budget import fixed_bytes, row_bytes, whole_bytes
from any2vec.train.triples.prepare import prepare_triples
from any2vec.train.words.prepare import Stage

_TRIPLE = 12
"""bytes: head, relation and tail on the disk"""
_NAME = 24
"""bytes of a name, and of finding it, where no input says it"""


def size_of_triples(
    model: TripleModel, data: str | list[str], run: RunSettings, table: TableOptions, options: TripleOptions | None,
    stage: Stage | None,
) -> TableRun:  # fmt: skip
    """Read `data`, and estimate `fit(model, data, ...)`.

    Raises:
        InputError: standard input (it can be read only once); the budget is too small: it says the smallest one.
        DataError: the data cannot be read.
    """
    if data == "-":
        raise InputError("Standard input can be read only once; give a file, or --rows and --items.")
    triples = prepare_triples(data, options, stage, run.cache_dir).triples
    names = int(triples.entities.offsets[-1]) + 8 * len(triples.entities)
    return _sized(model, triples.report, run, table, names, 0)


def size_of_shape(model: TripleModel, rows: int, items: int, run: RunSettings, table: TableOptions) -> TableRun:
    """An estimate without data: so many entities and triples, of one relation.

    Raises:
        InputError: the budget is too small: it says the smallest one that works.
    """
    report = TripleReport(num_triples=items, num_entities=rows, num_relations=1)
    return _sized(model, report, run, table, _NAME * rows, _NAME * rows)


def _sized(
    model: TripleModel, report: TripleReport, run: RunSettings, table: TableOptions, names: int, unread: int
) -> TableRun:
    """names: bytes of them on the disk; unread: bytes that reading will yet leave in memory."""
    fixed = fixed_bytes(model, report, run.threads or usable_cores()) + unread
    rows, size, more = report.num_entities, row_bytes(model), whole_bytes(model, report)
    plan = plan_budget(table.memory_bytes, rows, size, fixed, more) or BufferPlan(rows, size, 1, 1, fixed, 0)
    result = 4 * rows * model.dim + names + _TRIPLE * report.num_triples
    return TableRun(
        buffer=plan, order=table.order_of(model), items=report.num_triples, item_bytes=_TRIPLE, result_bytes=result,
        more_bytes=more,
    )  # fmt: skip


def told(found: TableRun, model: TripleModel, run: RunSettings) -> dict[str, Any]:
    """JSON-ready, with the run's own sizes."""
    return found.as_dict() | {"dim": model.dim, "epochs": run.epochs or model.default_epochs}
