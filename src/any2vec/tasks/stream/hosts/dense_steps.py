"""How trainers of a stream step a dense model: together, or by servers that step as gradients come."""

from __future__ import annotations

from typing import Any

from any2vec.cluster.transport import Transport
from any2vec.plan.order.roles import StreamRoles
from any2vec.sync.drivers.pushed_batches import PushedBatches
from any2vec.sync.drivers.served_gradients import ServedGradients
from any2vec.sync.drivers.summed_batches import SteppedLearner, SummedBatches
from any2vec.sync.drivers.summed_gradients import SummedGradients
from any2vec.sync.options.streams import StreamAgreement
from any2vec.sync.rules.gradient_rules import AsyncGradients, FirstGradients, GradientRule
from any2vec.tables.replica import Replica


def dense_in_rounds(how: StreamAgreement) -> bool:
    """Whether each trainer gets a batch at a time: bounded, too, for one without a batch would hold up the others."""
    return how.sync != "async"


def make_gradients(
    transport: Transport, roles: StreamRoles, how: StreamAgreement, own: Any
) -> SummedGradients | ServedGradients | None:
    """This host's part of the agreement on the parameters of a learner; None: it has rows.

    In step without servers all trainers hold all parameters and sum their gradients; else servers (where there are
    none, the trainers) hold a slice each, and step: in step by the gradients of all, else by each as it comes.
    """
    if not hasattr(own, "step"):
        return None
    trainers = tuple(roles.training)
    if how.sync == "sync" and not roles.servers:
        return SummedGradients(transport, SteppedLearner(own.values(), own.step), trainers)

    def rule_of(held: Replica) -> GradientRule:
        if how.sync == "sync":
            return FirstGradients(held, trainers, len(trainers))
        return AsyncGradients(held, trainers, how.bound)

    replica = Replica(own.values(), "adam", own.config.learning_rate)
    return ServedGradients(transport, replica, trainers, roles.row_owners, rule_of, how.sync != "async")


def agreed_steps(
    gradients: SummedGradients | ServedGradients, own: Any, how: StreamAgreement, trainers: int
) -> SummedBatches | PushedBatches:
    """The driver of a trainer, by which its learner steps from now on. In step it gives its share of their mean."""
    if isinstance(gradients, SummedGradients):
        driver: SummedBatches | PushedBatches = SummedBatches(gradients)
    else:
        driver = PushedBatches(gradients, own, dense_in_rounds(how))
    own.agreement, own.share = driver, 1.0 / trainers if how.sync == "sync" else 1.0
    return driver
