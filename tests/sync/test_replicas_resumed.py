"""Replicas that go on from a checkpoint: as they were under the rule that left them, else from what was agreed.

Legend: Q parameters of dense layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.models.clicks.config import LogisticRegression
from any2vec.plan.order.roles import Roles
from any2vec.sync.options.names import Fixed, parse_click_sync
from any2vec.sync.options.trainers import TrainerAgreement
from any2vec.sync.table_replicas import TableReplicas
from any2vec.tasks.clicks.dense import HostDense, make_dense
from any2vec.types import State

HOSTS, ROWS, SIZE = 4, 8, 6
OTHERS = ["fr-sum:1", "fr-mean:1", "fr-adasum:1", "fr-bmuf:1", "fr-easgd:1", "fr-ma:1"]
Tables = dict[str, np.ndarray]


def replicas_of_tables(transport: Transport, sync: str, values: float = 0) -> TableReplicas:
    how = parse_click_sync(sync)
    assert isinstance(how, Fixed)
    return TableReplicas(how, transport, {"entities": np.full((ROWS, 3), values, np.float32)}, {"entities": 2}, {})


def trained(transport: Transport, replicas: TableReplicas) -> None:
    """One batch of this host: its values go up by 1 or 2, states by less than one."""
    replicas.tables["entities"][:] += np.float32([1, 2, 1, 2][transport.rank])
    replicas.tables["entities"][:, 2] -= np.float32(0.5)
    replicas.moved(0)


def stopped(sync: str) -> tuple[list[State], Tables, list[np.ndarray]]:
    """The states of hosts that stop between two syncs, what they agree on, and their replicas."""

    def host(transport: Transport) -> tuple[State, Tables | None, np.ndarray]:
        replicas = replicas_of_tables(transport, sync)
        replicas.start()
        trained(transport, replicas)
        replicas.agreement.quiesce()
        found = replicas.gather_result(), replicas.tables["entities"].copy()
        state = replicas.state_dict()
        replicas.finish()
        replicas.close()
        return state, *found

    states, (agreed, *_), each = zip(*run_logical(HOSTS, host, patience=30), strict=True)
    return list(states), agreed, list(each)


@pytest.mark.parametrize("sync", OTHERS)
@pytest.mark.parametrize("before", ["fr-ma:7", "fr-sum:7"])
def test_the_first_sync_of_another_rule_stays_among_the_replicas(before: str, sync: str) -> None:
    """Hosts that trained nothing since have nothing to merge: no row leaves what they and their agreement had."""
    states, agreed, each = stopped(before)
    bounds = np.stack([*each, agreed["entities"]])

    def host(transport: Transport) -> tuple[Tables | None, np.ndarray, Tables | None]:
        replicas = replicas_of_tables(transport, sync)
        replicas.replica.value[:] = agreed["entities"].ravel()
        replicas.load_state_dict(states)
        replicas.start()
        replicas.agreement.quiesce()
        first = replicas.gather_result()
        replicas.moved(0)
        replicas.agreement.quiesce()
        found = first, replicas.tables["entities"].copy(), replicas.gather_result()
        replicas.finish()
        replicas.close()
        return found

    for first, table, then in run_logical(HOSTS, host, patience=30):
        for found in (table, *(result["entities"] for result in (first, then) if result is not None)):
            assert (bounds.min(axis=0) <= found).all() and (found <= bounds.max(axis=0)).all()


@pytest.mark.parametrize("sync", ["fr-ma:7", "fr-sum:7", "fr-bmuf:7", "fr-easgd:7"])
def test_replicas_go_on_under_their_own_rule(sync: str) -> None:
    states, agreed, each = stopped(sync)

    def host(transport: Transport) -> tuple[np.ndarray, Tables | None]:
        replicas = replicas_of_tables(transport, sync)
        replicas.load_state_dict(states)
        replicas.start()
        replicas.agreement.quiesce()
        found = replicas.tables["entities"].copy(), replicas.gather_result()
        replicas.finish()
        replicas.close()
        return found

    ran = run_logical(HOSTS, host, patience=30)
    assert all(np.array_equal(table, one) for (table, _), one in zip(ran, each, strict=True))
    assert ran[0][1] is not None and np.array_equal(ran[0][1]["entities"], agreed["entities"])


# Dense layers of clicks


def dense_layers(transport: Transport, sync: str, roles: Roles, start: float = 0) -> HostDense:
    options = TrainerAgreement(sync=sync, servers=roles.servers)
    value_Q = np.full(SIZE, start, np.float32)
    return make_dense(LogisticRegression(), value_Q, transport, roles, options, None, lambda index: 1)


def stopped_layers(sync: str, roles: Roles) -> tuple[list[State], np.ndarray, list[np.ndarray]]:
    """As `stopped`, of trainers and servers."""

    def host(transport: Transport) -> tuple[State, np.ndarray | None, np.ndarray]:
        layers = dense_layers(transport, sync, roles)
        layers.start()
        if roles.is_trainer(transport.rank):
            layers.replica.value += np.float32([1, 2, 9, 8][transport.rank])
        layers.quiesce()
        found = layers.gather_result(), layers.replica.value.copy()
        state = {name: array.copy() for name, array in layers.state_dict().items()}
        end(transport, layers, roles)
        return state, *found

    states, (agreed, *_), each = zip(*run_logical(roles.ranks, host, patience=30), strict=True)
    return list(states), agreed, list(each)


def gone_on(
    sync: str, roles: Roles, states: Sequence[State], agreed_Q: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """(replica, what counts) of each host, before anybody trains."""

    def host(transport: Transport) -> tuple[np.ndarray, np.ndarray | None]:
        layers = dense_layers(transport, sync, roles)
        layers.load_state_dict(states, agreed_Q, transport.rank)
        layers.start()
        layers.quiesce()
        found = layers.replica.value.copy(), layers.gather_result()
        end(transport, layers, roles)
        return found

    return run_logical(roles.ranks, host, patience=30)


def end(transport: Transport, layers: HostDense, roles: Roles) -> None:
    if layers.agreement is not None:
        layers.agreement.close()
    layers.close()


@pytest.mark.parametrize("sync", OTHERS[:-1])
@pytest.mark.parametrize("servers", [0, 1])
def test_layers_under_another_rule_begin_with_what_was_agreed(sync: str, servers: int) -> None:
    roles = Roles(4, servers)
    states, agreed_Q, _ = stopped_layers("fr-ma:1000", roles)
    ran = gone_on(sync, roles, states, agreed_Q)
    assert all(np.array_equal(replica, agreed_Q) for replica, _ in ran[: roles.trainers])
    assert ran[0][1] is not None and np.array_equal(ran[0][1], agreed_Q) and (agreed_Q == 5).all()


@pytest.mark.parametrize("sync", ["fr-sum:1000", "fr-ma:1000", "fr-bmuf:1000", "fr-easgd:1000", "ds-sync", "none"])
@pytest.mark.parametrize("servers", [0, 1])
def test_layers_go_on_under_their_own_rule(sync: str, servers: int) -> None:
    """Servers of rows, which have no replica, do not count."""
    roles = Roles(4, servers)
    states, agreed_Q, each = stopped_layers(sync, roles)
    ran = gone_on(sync, roles, states, agreed_Q)
    assert all(np.array_equal(replica, one) for (replica, _), one in zip(ran[:4], each[:4], strict=True))
    assert ran[0][1] is not None and np.array_equal(ran[0][1], agreed_Q)


@pytest.mark.parametrize("sync", ["fr-sum:1000", "fr-ma:1000", "fr-bmuf:1000", "fr-easgd:1000", "ds-sync"])
@pytest.mark.parametrize("trainers", [1, 2, 6])
def test_layers_of_more_or_fewer_trainers_are_what_was_agreed(sync: str, trainers: int) -> None:
    """What a trainer that is there no more had learned since the last sync is part of it."""
    states, agreed_Q, _ = stopped_layers(sync, Roles(4))
    found = gone_on(sync, Roles(trainers), states, agreed_Q)[0][1]
    assert found is not None and np.array_equal(found, agreed_Q)
