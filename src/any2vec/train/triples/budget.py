"""How a run of a model of triples is laid out within a budget: all rows in memory, or partitions of them."""

from __future__ import annotations

from any2vec.cluster.transport import Transport
from any2vec.data.triples.triples import TripleReport
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.worker import relation_optimiser
from any2vec.plan.order.buffer import BufferPlan
from any2vec.sampling.triple_windows import window_bytes
from any2vec.tables.row_optimiser import RowOptimiser
from any2vec.train.host import FitRequest
from any2vec.train.out_of_core.table_budget import agreed_plan, known_plan, plan_table, process_bytes
from any2vec.train.triples.prepare import PreparedTriples

WINDOW = 1 << 17
"""triples that are shuffled together, and between two moments at which a run can stop"""
_QUESTIONS = 120
"""bytes of a triple's two questions, at the peak while they are sorted"""


def known_triples(request: FitRequest, prepared: PreparedTriples) -> BufferPlan | None:
    """`known_plan` of a model of triples."""
    fixed = fixed_bytes(request.model, prepared.triples.report, request.threads)
    return known_plan(request, len(prepared.triples.entities), row_bytes(request.model), fixed)


def share_triples(request: FitRequest, prepared: PreparedTriples, transport: Transport) -> BufferPlan:
    """`agreed_plan` of a model of triples."""
    report = prepared.triples.report
    fixed = fixed_bytes(request.model, report, request.threads)
    return agreed_plan(request, transport, report.num_entities, row_bytes(request.model), fixed)


def plan_triples(request: FitRequest, prepared: PreparedTriples) -> BufferPlan | None:
    """`plan_table` of a model of triples."""
    model, report = request.model, prepared.triples.report
    fixed, more = fixed_bytes(model, report, request.threads), whole_bytes(model, report)
    return plan_table(request, report.num_entities, row_bytes(model), fixed, more)


def row_bytes(model: TripleModel) -> int:
    """Of an entity's row with its state."""
    return 4 * RowOptimiser(model.dim).num_columns


def whole_bytes(model: TripleModel, report: TripleReport) -> int:
    """What the process needs besides where all rows are in memory: the questions of all triples, and at the end the
    vectors without their state."""
    return _QUESTIONS * max(0, report.num_triples - WINDOW) + report.num_entities * 4 * model.dim


def fixed_bytes(model: TripleModel, report: TripleReport, threads: int) -> int:
    """What the process needs beside the rows of entities: what it has now, windows, relations, what threads have."""
    negatives = model.negatives_of(report.num_entities) or report.num_entities
    relations = model.num_relation_rows(report.num_relations) * 4 * relation_optimiser(model).num_columns
    scores = 4 * (1 + model.is_near) * model.batch_size * negatives
    rows = 4 * 3 * (negatives + 3 * model.batch_size) * (model.dim + 1)
    windows = window_bytes(WINDOW) + 2 * _QUESTIONS * WINDOW
    return process_bytes() + windows + 4 * relations + threads * (scores + rows)
