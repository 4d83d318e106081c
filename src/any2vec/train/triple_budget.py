"""How a run of a model of triples is laid out within a budget: all rows in memory, or partitions of them."""

from __future__ import annotations

from any2vec.machine import resident_bytes
from any2vec.models.triple_config import TripleModel
from any2vec.models.triple_worker import relation_optimiser
from any2vec.plan.buffer import BufferPlan, plan_buffer
from any2vec.sampling.triple_windows import window_bytes
from any2vec.tables.partition_store import read_index
from any2vec.tables.row_optimiser import RowOptimiser
from any2vec.train.checkpoint import FILE, check_settings
from any2vec.train.host import FitRequest
from any2vec.train.run_folder import TABLE, has_table
from any2vec.train.triple_prepare import PreparedTriples

WINDOW = 1 << 17
"""triples that are shuffled together, and between two moments at which a run can stop"""
_QUESTIONS = 120
"""bytes of a triple's two questions, at the peak while they are sorted"""
_COMPILER = 100 << 20
"""bytes of what kernels, libraries and threads will yet take"""

_LIBRARIES = 150 << 20
"""bytes of mapped files that are code, at most"""


def known_plan(request: FitRequest, prepared: PreparedTriples) -> BufferPlan | None:
    """The plan of the unfinished run that this one goes on with; None where there is none with a table on disk.

    Raises:
        InputError: it had other settings.
        FormatError: its store is damaged.
    """
    if request.out is None or not request.resume or not has_table(request.out):
        return None
    index = read_index(request.out / TABLE)
    note, partitions = index["note"], len(index["bounds"]) - 1
    check_settings(request.out / TABLE, note["run"], request.settings)
    return BufferPlan(
        len(prepared.triples.entities), row_bytes(request.model), partitions, note["capacity"],
        fixed_bytes(request, prepared), 0,
    )  # fmt: skip


def plan_triples(request: FitRequest, prepared: PreparedTriples) -> BufferPlan | None:
    """Partitions of a table that does not fit; None: all rows are in memory, as they are without a budget.

    Raises:
        InputError: the budget is too small; it says the smallest one that works.
    """
    budget = request.table.memory_bytes
    has_checkpoint = request.resume and request.out is not None and (request.out / FILE).exists()
    if not budget or has_checkpoint:
        return None
    num_rows, bytes_of_row = len(prepared.triples.entities), row_bytes(request.model)
    fixed = fixed_bytes(request, prepared)
    # In memory there are the questions of all triples, and at the end the vectors without their state.
    questions = _QUESTIONS * max(0, len(prepared.triples) - WINDOW)
    if fixed + questions + num_rows * (bytes_of_row + 4 * request.model.dim) <= budget:
        return None
    return plan_buffer(num_rows, bytes_of_row, min(budget, fixed + num_rows * bytes_of_row - 1), fixed)


def row_bytes(model: TripleModel) -> int:
    """Of an entity's row with its state."""
    return 4 * RowOptimiser(model.dim).num_columns


def fixed_bytes(request: FitRequest, prepared: PreparedTriples) -> int:
    """What the process needs beside the rows of entities: what it has now, windows, relations, what threads have."""
    model, num_entities = request.model, len(prepared.triples.entities)
    negatives = model.negatives_of(num_entities) or num_entities
    relations = model.num_relation_rows(len(prepared.triples.relations)) * 4 * relation_optimiser(model).num_columns
    scores = 4 * (1 + model.is_near) * model.batch_size * negatives
    rows = 4 * 3 * (negatives + 3 * model.batch_size) * (model.dim + 1)
    windows = window_bytes(WINDOW) + 2 * _QUESTIONS * WINDOW
    anonymous, mapped = resident_bytes()
    now = anonymous + min(mapped, _LIBRARIES)  # mapped triples go when their room is wanted
    return now + _COMPILER + windows + 4 * relations + request.threads * (scores + rows)
