"""What the papers say of their agreements, held against closed formulas, on tables of a few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from agreeing import DIM, ROWS, STEPS, Tables, convex, run_hosts, spread, start_tables
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import InputError
from any2vec.plan.order.groups import GroupSchedule, butterfly_groups, group_size, random_groups, topology_groups
from any2vec.sync.exchange.site_rows import PIECE, SiteRows
from any2vec.sync.options.names import MERGES, SYNCS, Gaia, Groups, Leader, Server, parse_sync
from any2vec.sync.options.rounds import RoundAgreement
from spreads import agreed

# DS-Sync


def identity(rank: int) -> Tables:
    return {name: np.zeros((5, 16), np.float32) for name in ("input", "output")}


def one_hot(tables: Tables, rank: int, number: int, step: int) -> float:
    """In the first round host r goes to the unit vector r, far enough off zero that every row changes everywhere."""
    if number == 0 and step == 0:
        for table in tables.values():
            table[:, rank] = 1
    return 1.0


@pytest.mark.parametrize(("hosts", "size"), [(4, 2), (8, 2), (16, 4), (6, 3)])
def test_a_round_in_groups_shrinks_the_variance_as_the_formula_says(hosts: int, size: int) -> None:
    """Averaging in N / s groups keeps N / s - 1 of the N - 1 directions in which hosts can differ."""
    ran = run_hosts(f"ds-sync:{size}", hosts, 1, one_hot, tables=identity)
    before = 10 * (hosts - 1)  # of 10 rows: hosts unit vectors, less their mean
    assert spread(ran) / before == pytest.approx((hosts - size) / (size * (hosts - 1)), rel=1e-5)


@pytest.mark.parametrize(("hosts", "size"), [(4, 2), (8, 2), (16, 4)])
def test_random_groups_contract_on_average(hosts: int, size: int) -> None:
    """By the schedule alone, over many seeds and rounds: within four standard errors of the formula."""
    ratios = []
    for seed in range(60):
        x = np.random.default_rng(seed).standard_normal((hosts, 50))
        for number in range(4):
            before = ((x - x.mean(axis=0)) ** 2).sum()
            for group in random_groups(hosts, size, seed, number):
                x[group] = x[group].mean(axis=0)
            ratios.append(((x - x.mean(axis=0)) ** 2).sum() / before)
            if ratios[-1] < 1e-12:  # two pairings in a row can already agree on everything
                break
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert np.mean(ratios) == pytest.approx((hosts - size) / (size * (hosts - 1)), abs=4 * error)


def test_all_partitions_are_as_likely() -> None:
    found = Counter(str(random_groups(4, 2, 7, number)) for number in range(3000))
    pairings = Counter(str(sorted(random_groups(4, 2, 7, number))) for number in range(3000))
    assert len(found) == 6 and len(pairings) == 3
    assert all(abs(count - 1000) < 5 * np.sqrt(3000 * 2 / 9) for count in pairings.values())


@pytest.mark.parametrize(
    ("sync", "hosts", "rounds"),
    [("ds-sync:butterfly:2", 8, 3), ("ds-sync:butterfly:3", 9, 2), ("ds-sync:butterfly:4", 4, 1),
     ("ds-sync:topology:3", 6, 2), ("ds-sync:topology", 8, 2), ("ds-sync:topology", 2, 1),
     ("ds-sync:topology:4", 4, 1)],
)  # fmt: skip
@pytest.mark.parametrize("first", [0, 1])
def test_butterfly_and_topology_are_exact(sync: str, hosts: int, rounds: int, first: int) -> None:
    """Rows that hosts have trained become their mean, the same bits everywhere; a single host's row comes as it is."""
    reported: dict[int, Tables] = {}

    def some(tables: Tables, rank: int, number: int, step: int) -> float:
        if number == first and step == 0:
            rng = np.random.default_rng(rank)
            for table in tables.values():
                rows = np.flatnonzero(rng.random(ROWS) < 0.3)
                table[rows] += rng.standard_normal((len(rows), DIM)).astype(np.float32)
            reported[rank] = {name: table.copy() for name, table in tables.items()}
        return 1.0

    ran = run_hosts(sync, hosts, first + rounds, some)
    for name, start in start_tables().items():
        every = np.stack([reported[rank][name] for rank in range(hosts)]).astype(float)
        accessed = (every != start).any(axis=2)[..., None]
        mean = np.where(
            accessed.any(axis=0), (every * accessed).sum(axis=0) / np.maximum(accessed.sum(axis=0), 1), start
        )
        alone = accessed.sum(axis=0)[:, 0] == 1
        assert alone.any() and (accessed.sum(axis=0) > 1).any()
        for host in ran:
            assert np.array_equal(host.tables[name], ran[0].tables[name])
        np.testing.assert_allclose(ran[0].tables[name], mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(ran[0].tables[name][alone], mean[alone].astype(np.float32))
        np.testing.assert_array_equal(ran[0].collected[name], ran[0].tables[name])


def test_changes_stop_when_all_have_received() -> None:
    """Three rounds after the last training of 8 hosts in pairs nothing is left to say: no rows travel."""
    sent: dict[int, int] = {}

    def note(number: int, rank: int, agreement: Any) -> None:
        if rank == 0:
            sent[number] = agreement.transport.counters.bytes_by_kind()["rows"]

    run_hosts("ds-sync:butterfly:2", 8, 6, one_hot, tables=identity, each_round=note)
    assert 0 < sent[0] < sent[1] < sent[2] == sent[3] == sent[5]


def test_older_changes_weigh_less_and_are_shared() -> None:
    """Host 0 trains to 1 in round 0 (groups 01, 23), host 2 to 4 in round 1 (groups 02, 13); all start from 0."""

    def two(tables: Tables, rank: int, number: int, step: int) -> float:
        if step == 0 and (rank, number) in ((0, 0), (2, 1)):
            tables["input"][:] = 1 if rank == 0 else 4
        return 1.0

    ran = run_hosts("ds-sync:butterfly:2", 4, 2, two, tables=identity)
    # Hosts 0 and 1 share the weight 1 of host 0's news, which halves by the next round.
    assert [float(host.tables["input"][0, 0]) for host in ran] == pytest.approx([3.4, 1, 3.4, 1])
    # Hosts 0 and 2 have news that are to travel on, of weight (1 / 4 + 1) / 2; the others' have come to an end.
    assert ran[0].collected["input"][0, 0] == pytest.approx(3.4, rel=1e-5)


def test_one_group_is_the_mean() -> None:
    one, mean = (run_hosts(sync, 4, 8)[0].collected for sync in ("ds-sync:4", "mean"))
    for name in mean:
        np.testing.assert_allclose(one[name], mean[name], rtol=1e-5)


def test_groups_are_partitions() -> None:
    for hosts in (2, 3, 5, 8, 9, 12, 31):
        for number in range(6):
            kinds = [random_groups(hosts, group_size(hosts), 1, number)]
            kinds += [topology_groups(hosts, sites, number) for sites in range(1, hosts + 1) if hosts % sites == 0]
            kinds += [butterfly_groups(hosts, size, number) for size in (2, 3) if hosts in (size, size**2, size**3)]
            for groups in kinds:
                assert sorted(sum(groups, [])) == list(range(hosts))  # noqa: RUF017
                assert all(group == sorted(group) for group in groups)
    assert [group_size(hosts) for hosts in (1, 2, 4, 7, 8, 9, 16, 32)] == [2, 2, 2, 2, 2, 3, 4, 4]


@pytest.mark.parametrize(
    ("kind", "hosts", "size", "sites", "rounds"),
    [("butterfly", 27, 3, 1, 3), ("random", 4, 4, 1, 1), ("topology", 2, None, 1, 1), ("topology", 2, None, 2, 1),
     ("topology", 4, 4, 1, 1), ("topology", 4, 4, 2, 2), ("topology", 6, 3, 1, 2), ("butterfly", 8, 2, 1, 3)],
)  # fmt: skip
def test_in_its_rounds_of_mixing_a_schedule_brings_news_to_all(
    kind: str, hosts: int, size: int | None, sites: int, rounds: int
) -> None:
    """From any host, whichever round it has trained in: fewer rounds do not."""
    schedule = GroupSchedule.of(kind, hosts, size, 0, sites)
    assert schedule.mixing_rounds == rounds

    def knowing(host: int, first: int, rounds: int) -> set[int]:
        known = {host}
        for number in range(first, first + rounds):
            known.update(*(group for group in schedule.groups(number) if known & set(group)))
        return known

    for host, first in product(range(hosts), range(rounds)):
        assert len(knowing(host, first, rounds)) == hosts > len(knowing(host, first, rounds - 1))


# Elastic averaging


@pytest.mark.parametrize("bits", [32, 16, 8])
def test_center_and_hosts_keep_their_sum(bits: int) -> None:
    """A sync moves the center by what it takes from the hosts, in few bits, too."""
    before: dict[tuple[int, int], Tables] = {}
    after: dict[tuple[int, int], Tables] = {}
    centers: dict[tuple[int, int], Tables] = {}

    def step(tables: Tables, rank: int, number: int, step: int) -> float:
        loss = convex(tables, rank, number, step)
        before[number, rank] = {name: table.copy() for name, table in tables.items()}
        return loss

    def note(number: int, rank: int, agreement: Any) -> None:
        after[number, rank] = {name: table.copy() for name, table in agreement.tables.items()}
        centers[number, rank] = {name: rows.copy() for name, rows in agreement.center.items()}

    run_hosts("elastic", 3, 5, step, bits=bits, each_round=note)
    for name, center in start_tables().items():
        for number in range(5):
            hosts = [sum(found[number, rank][name].astype(float) for rank in range(3)) for found in (before, after)]
            moved = np.concatenate([centers[number, rank][name] for rank in range(3)])
            np.testing.assert_allclose(center + hosts[0], moved + hosts[1], atol=2e-5)
            assert np.abs(moved - center).max() > 0.01
            center = moved


def test_a_center_pulled_all_the_way_is_the_mean() -> None:
    last: dict[int, Tables] = {}

    def step(tables: Tables, rank: int, number: int, step: int) -> float:
        loss = convex(tables, rank, number, step)
        last[rank] = {name: table.copy() for name, table in tables.items()}
        return loss

    ran = run_hosts("elastic:beta=1", 4, 3, step)
    for name, table in ran[0].collected.items():
        mean = np.mean([last[rank][name].astype(float) for rank in range(4)], axis=0)
        np.testing.assert_allclose(table, mean, rtol=1e-5)


CURVATURE, GOAL = np.array([0.5, 1.0, 2.0]), np.array([-1.0, 0.5, 3.0])
"""host i has f_i(w) = CURVATURE[i] (w - GOAL[i])^2 / 2 in each number; losses are least at the least goal's host"""


def different(tables: Tables, rank: int, number: int, step: int) -> float:
    loss = 0.0
    for table in tables.values():
        off = table - np.float32(GOAL[rank])
        table -= np.float32(0.02 * CURVATURE[rank]) * off
        loss += float((CURVATURE[rank] * off**2).sum() / 2)
    return loss + (0.1 if rank else 0.0)  # host 0 leads once all have come to rest


def test_elastic_averaging_rests_off_every_optimum_and_the_leader_rests_on_its_own() -> None:
    """Where the f_i differ (Teng et al. 2019, section 1): no host of EASGD comes to rest where its gradient is zero."""
    elastic = run_hosts("elastic", 3, 400, different)
    # A round takes f_i's distance by q_i = (1 - 0.02 a_i)^4, a sync the distance from the center by 1 - beta / 3. At
    # rest x_i = y - p (y - c), y = g_i + q_i (x_i - g_i), and the center's change, sum of p (y_i - c), is zero.
    p, q = 0.43 / 3, (1 - 0.02 * CURVATURE) ** STEPS
    keep = (1 - q) / (1 - q * (1 - p))  # y_i - c = keep (g_i - c)
    center = (keep * GOAL).sum() / keep.sum()
    best = (CURVATURE * GOAL).sum() / CURVATURE.sum()
    assert abs(center - best) > 0.1
    np.testing.assert_allclose(elastic[0].collected["input"], center, rtol=1e-4)
    for rank, host in enumerate(elastic):
        assert (np.abs(CURVATURE[rank] * (host.tables["input"] - GOAL[rank])) > 0.05).all()
    leader = run_hosts("leader", 3, 400, different)
    np.testing.assert_allclose(leader[0].tables["input"], GOAL[0], atol=1e-3)
    assert {level.leader for host in leader for level in host.agreement.levels if level.name == "all"} == {0}


# Leader SGD

TRUTH = np.random.default_rng(11).standard_normal((20, 3)) @ np.random.default_rng(12).standard_normal((3, 20))


def own_start(rank: int) -> Tables:
    """Each host starts elsewhere, and so ends at another rotation of the same factors."""
    rng = np.random.default_rng(100 + rank)
    return {name: rng.standard_normal((20, 3)).astype(np.float32) for name in ("input", "output")}


def factor_loss(tables: Tables) -> float:
    return float(((tables["input"].astype(float) @ tables["output"].T - TRUTH) ** 2).mean())


def factor(tables: Tables, rank: int, number: int, step: int) -> float:
    """Ten full steps of gradient descent on |input output^T - TRUTH|^2."""
    loss = factor_loss(tables)
    for _ in range(10):
        off = tables["input"].astype(float) @ tables["output"].T - TRUTH
        down = off @ tables["output"], off.T @ tables["input"]
        for name, gradient in zip(("input", "output"), down, strict=True):
            tables[name] -= (0.01 * gradient).astype(np.float32)
    return loss


def test_averages_of_rotated_factors_harm_and_a_leader_does_not() -> None:
    """The curse of symmetry (Teng et al. 2019, section 3): each host's factors are right, their mean is not."""
    alone = [own_start(rank) for rank in range(2)]
    for number in range(60):
        for rank, tables in enumerate(alone):
            factor(tables, rank, number, 0)
    assert max(factor_loss(tables) for tables in alone) < 1e-3

    def trained(rank: int) -> Tables:
        return {name: table.copy() for name, table in alone[rank].items()}

    def nudge(tables: Tables, rank: int, number: int, step: int) -> float:
        for table in tables.values():
            table *= np.float32(1 + 1e-6)  # every row has changed
        return factor_loss(tables)

    mean = run_hosts("ds-sync:2", 2, 1, nudge, tables=trained)
    led = run_hosts("leader:size=2:every=1", 2, 1, nudge, tables=trained)
    assert min(factor_loss(host.tables) for host in mean) > 100 * 1e-3
    assert min(factor_loss(host.tables) for host in led) < 1e-3
    led = run_hosts("leader:size=2", 2, 40, factor, tables=trained)  # the other comes over to the leader's factors
    assert max(factor_loss(host.tables) for host in led) < 1e-3 and factor_loss(led[0].collected) < 1e-3


def test_the_least_loss_leads_and_feels_no_pull() -> None:
    leaders: dict[tuple[int, int], tuple[int, int]] = {}

    def quiet(tables: Tables, rank: int, number: int, step: int) -> float:
        for table in tables.values():
            table[rank] += 1  # a row of its own
        return float((rank - 1) % 4)  # host 1 is the best of 0 and 1 and of all, host 2 of 2 and 3

    def note(number: int, rank: int, agreement: Any) -> None:
        leaders[number, rank] = tuple(level.leader for level in agreement.levels)  # type: ignore[assignment]

    ran = run_hosts("leader:size=2:every=2", 4, 3, quiet, each_round=note)
    assert [leaders[0, rank] for rank in range(4)] == [(1, -1), (1, -1), (2, -1), (2, -1)]
    assert [leaders[2, rank] for rank in range(4)] == [(1, 1), (1, 1), (2, 1), (2, 1)]
    start = start_tables()["input"]
    expected = start.copy()
    for _ in range(3 * STEPS):
        expected[1] += 1
    np.testing.assert_array_equal(ran[1].tables["input"], expected)  # nobody's rows came to the leader
    # The others took of the leader's row, not of rows that it has not trained: host 0's own row is as it made it.
    assert (ran[0].tables["input"][1] != start[1]).all()
    np.testing.assert_allclose(ran[0].tables["input"][0], start[0] + 3 * STEPS, rtol=1e-6)


def naive_leader_sgd(how: Leader, rounds: int) -> np.ndarray:
    """Teng et al. 2019 as in the authors' code, on one number a host: `different`'s losses, one group, (hosts,)."""
    x, loss, leaders, given = np.full(3, 0.7), None, [0, 0], [np.nan, np.nan]
    for number in range(rounds):
        seen = np.zeros(3)
        for _ in range(STEPS):
            seen += CURVATURE * (x - GOAL) ** 2 / 2 + np.array([0, 0.1, 0.1]) / 30
            x = x - 0.02 * CURVATURE * (x - GOAL)
            for level, pull in enumerate((how.p1 / STEPS, how.p2 / (STEPS * how.every))):
                if number > level * (how.every - 1):
                    x = np.where(np.arange(3) == leaders[level], x, x + pull * (given[level] - x))
        loss = seen if loss is None else (loss + seen) / 2
        for level, share in enumerate((how.c1, how.c2)[: 2 if (number + 1) % how.every == 0 else 1]):
            leaders[level] = int(loss.argmin())
            given[level] = x[leaders[level]]
            x = x + share * (given[level] - x)
    return x


def test_leader_sgd_steps_as_published() -> None:
    """A step of the gradient, then of both pulls; then a share of each leader's rows."""

    def one_number(rank: int) -> Tables:
        return {name: np.full((5, 3), 0.7, np.float32) for name in ("input", "output")}

    how = Leader(size=3, every=2, c1=0.2, c2=0.3, p1=0.4, p2=0.5)
    ran = run_hosts("leader:size=3:every=2:c1=0.2:c2=0.3:p1=0.4:p2=0.5", 3, 9, different, tables=one_number)
    for number, host in zip(naive_leader_sgd(how, 9), ran, strict=True):
        np.testing.assert_allclose(host.tables["input"], number, rtol=1e-5)


def test_a_leader_does_not_give_rows_that_it_was_pulled_to() -> None:
    """Host 0 trains and leads; then nobody trains, and host 1 leads, which has rows on their way to host 0's alone."""

    def step(tables: Tables, rank: int, number: int, step: int) -> float:
        if rank == 0 and number == 0:
            tables["input"][:5] += 1
        return float(rank) if number == 0 else 100.0 * (1 - rank)

    ran = run_hosts("leader:size=2:every=100", 2, 2, step)
    group = ran[0].agreement.levels[0]
    assert group.leader == 1 and not len(group.given["input"][0])
    assert (ran[1].tables["input"][:5] != start_tables()["input"][:5]).all()


def test_pulls_between_leaders_add_up_to_the_share() -> None:
    """One round after hearing 0 -> 1 with share c: the rest shrinks by (1 - p / steps) at each of four steps."""

    def step(tables: Tables, rank: int, number: int, step: int) -> float:
        if rank == 0 and number == 0 and step == 0:
            for table in tables.values():
                table[:] += 1
        return float(rank)

    ran = run_hosts("leader:size=2:every=100:c1=0.25:p1=0.4", 2, 2, step)
    moved = ran[1].tables["input"] - start_tables()["input"]
    # The second leader has trained nothing since: there is nothing more to take a share of.
    np.testing.assert_allclose(moved, 1 - 0.75 * 0.9**4, rtol=1e-4)


# Gaia


@pytest.mark.parametrize(
    ("sync", "bits"),
    [("gaia:0.3:none", 32), ("gaia:0.3:none:element", 32), ("gaia:0.3:rate", 32), ("gaia:0.2:sites=4", 32),
     ("gaia:0.2:sites=4", 8), ("gaia:0.2:sites=4:element:none", 32), ("gaia:0.2:sites=4:element", 16)],
)  # fmt: skip
def test_what_is_not_reported_is_insignificant_and_nothing_is_dropped(sync: str, bits: int) -> None:
    how = parse_sync(sync)
    assert isinstance(how, Gaia)
    rounds, checked = 12, []
    drift = np.linspace(0.5, 1, DIM, dtype=np.float32)  # numbers of a row become significant one after the other

    def note(number: int, rank: int, agreement: Any) -> None:
        shrink = {"none": 1.0, "rate": 1 - number / rounds, "sqrt": (number + 1) ** -0.5}[how.shrink]
        for name, site in agreement.site_rows.items():
            low = agreement._sharding[name].bounds[agreement.members.index(rank)]
            rows = agreement.tables[name][low : low + len(site.base)]
            if how.filter == "element":
                assert (np.abs(site.unsent) <= how.threshold * shrink * np.abs(rows) + 1e-6).all()
            else:
                sizes = np.linalg.norm(site.unsent, axis=1), np.linalg.norm(rows, axis=1)
                assert (sizes[0] <= how.threshold * shrink * sizes[1] + 1e-6).all()
            checked.append(site.unsent.any())
            np.testing.assert_allclose(rows, site.base + site.unsent, rtol=1e-5, atol=1e-6)

    def tall(rank: int) -> Tables:
        return {name: np.full((ROWS, DIM), 2, np.float32) + np.abs(table) for name, table in start_tables().items()}

    def creep(tables: Tables, rank: int, number: int, step: int) -> float:
        for table in tables.values():
            table += np.float32(0.004 * (1 + rank)) * drift  # small beside the rows: it has to add up first
        return 1.0

    ran = run_hosts(sync, 4, rounds, creep, tables=tall, each_round=note, bits=bits)
    assert any(checked)
    if how.sites == 4:
        total = 0.004 * (1 + 2 + 3 + 4) * STEPS * rounds * drift
        for name, start in tall(0).items():
            np.testing.assert_allclose(ran[0].collected[name], start + total, atol=1e-4)


@pytest.mark.parametrize("sync", ["gaia:0.3:flush=4", "gaia:0:clock=0:sites=4"])
@pytest.mark.parametrize("bits", [32])
def test_after_a_flush_sites_are_equal(sync: str, bits: int) -> None:
    ran = run_hosts(sync, 4, 8, bits=bits)  # the eighth round is a flush
    for host in ran:
        for name, table in host.tables.items():
            np.testing.assert_array_equal(table, ran[0].collected[name])
    assert any((run_hosts("gaia:0.3", 4, 8)[3].tables[name] != ran[3].tables[name]).any() for name in ran[3].tables)


def test_without_a_threshold_sites_add_up() -> None:
    gaia, total = (run_hosts(sync, 4, 8)[0].collected for sync in ("gaia:0:sites=4", "sum"))
    for name in total:
        np.testing.assert_allclose(gaia[name], total[name], rtol=1e-5)


@pytest.mark.parametrize("rule", get_args(get_type_hints(Gaia)["rule"]))
def test_one_site_is_graphany2vec(rule: str) -> None:
    gaia, plain = (run_hosts(sync, 4, 8)[0].collected for sync in (f"gaia:sites=1:{rule}", rule))
    for name in plain:
        np.testing.assert_array_equal(gaia[name], plain[name])


@pytest.mark.parametrize("clock", [0, 1, 3])
def test_what_is_reported_counts_clock_rounds_later(clock: int) -> None:
    seen: list[bool] = []

    def first(tables: Tables, rank: int, number: int, step: int) -> float:
        if rank == 0 and number == 0 and step == 0:
            tables["input"] += 5
        return 1.0

    def note(number: int, rank: int, agreement: Any) -> None:
        if rank == 1:
            seen.append(bool((agreement.tables["input"] != start_tables()["input"]).any()))

    ran = run_hosts(f"gaia:clock={clock}:late", 2, 6, first, each_round=note)
    assert seen == [number >= clock for number in range(6)]
    np.testing.assert_array_equal(ran[1].tables["input"], ran[0].tables["input"])


class EvenRows:
    """An inspector of work that reads every second row."""

    def inspect(self, epoch: int, start: int, stop: int, marks: Mapping[str, np.ndarray]) -> None:
        for mark_V in marks.values():
            mark_V[::2] = 1


@pytest.mark.parametrize("sites", [2, 4])
def test_rows_that_are_read_wait_and_others_come_late(sites: int) -> None:
    """The selective barrier: a row that a round reads is as fresh as without a clock, another as late as it may be."""

    def seen(barrier: str) -> dict[tuple[int, int], Tables]:
        begun: dict[tuple[int, int], Tables] = {}

        def step(tables: Tables, rank: int, number: int, step: int) -> float:
            if step == 0:
                begun[number, rank] = {name: table.copy() for name, table in tables.items()}
            return convex(tables, rank, number, step)

        ran = run_hosts(f"gaia:0.2:sites={sites}:{barrier}", 4, 8, step, inspector=EvenRows())
        return begun | {(-1, 0): ran[0].collected}

    selective, fresh, late = seen("clock=2"), seen("clock=0"), seen("clock=2:late")
    assert any((fresh[7, 0][name] != late[7, 0][name]).any() for name in start_tables())
    for when, tables in selective.items():
        for name, table in tables.items():
            if when[0] >= 0:
                np.testing.assert_array_equal(table[::2], fresh[when][name][::2])
            np.testing.assert_array_equal(table[1::2], late[when][name][1::2])


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("by_element", [False, True])
def test_only_who_reads_a_row_waits_for_its_values(bits: int, by_element: bool) -> None:
    """Ids come first; then a row waits for its piece of the values, and for no more."""
    num_rows, change = 3 * PIECE, np.ones((2 * PIECE, DIM), np.float32)
    announced = np.arange(0, 2 * PIECE) + PIECE // 2

    def host(transport: Transport) -> list[int]:
        site = SiteRows(transport, range(2), "input", np.zeros((num_rows, DIM), np.float32), bits, by_element)
        if transport.rank == 0:
            site.announce(announced, change)
            transport.recv(1, "nobody waited")
            site.send_values()
            site.announce(announced[:1], change[:1])
            site.send_values()
            return []
        for _ in range(2):
            site.announce(announced[:0], change[:0])
            site.send_values()
        unsaid = site.flights.pop()
        assert not len(site.count(np.array([0, num_rows - 1])))  # nobody speaks of these
        transport.send(0, (), "nobody waited")
        assert site.count(announced[:1]) == announced[:1]
        come = [site.flights[0].come[0]]
        np.testing.assert_allclose(site.base[announced[:2], 0], [1, 0], rtol=0.01)
        site.flights.append(unsaid)
        assert site.count(announced[:1]) == announced[:1]  # a line brings older rounds first
        np.testing.assert_allclose(site.base[announced[:2], 0], [2, 0], rtol=0.01)
        return [*come, site.flights[0].come[0]]

    assert run_logical(2, host, patience=10)[1] == [PIECE, 2 * PIECE]


def test_a_higher_threshold_announces_less_and_the_controller_finds_it() -> None:
    def reported(sync: str) -> int:
        ran = run_hosts(sync, 4, 10)
        return sum(host.transport.counters.bytes_by_phase()["significant"] for host in ran)

    free = [reported(f"gaia:{threshold}:none") for threshold in (0, 0.1, 0.5)]
    assert free[0] > free[1] > free[2]
    thresholds = [run_hosts(f"gaia:0.1:limit={limit}", 4, 10)[0].agreement.threshold for limit in (1, 10**9)]
    assert thresholds == pytest.approx([0.15, 0.05], abs=1e-5)


# Names


def test_names_and_what_they_stand_for() -> None:
    assert parse_sync("ds-sync:butterfly:4") == parse_sync("ds-sync:4:butterfly") == Groups("butterfly", 4)
    assert parse_sync("gaia:0.05:sites=2:element") == Gaia(0.05, 2, filter="element")
    assert parse_sync("leader:c1=1:every=2") == Leader(every=2, c1=1)
    assert parse_sync("server:bounded:3") == Server("bounded", 3) and parse_sync("server:async") == Server("async")
    for name in SYNCS:
        assert RoundAgreement(sync=name).form(4) == ("pull-opt" if name in MERGES else None)
    assert RoundAgreement(sync="mean", scheme="rep-opt").form(4) == "rep-opt"


@pytest.mark.parametrize(
    ("options", "said"),
    [({"sync": "ring"}, "sync must be one of adasum, .*frequent, got 'ring'"),
     ({"sync": "adasumm"}, "got 'adasumm'; did you mean 'adasum'?"),
     ({"sync": "mean:2"}, "mean takes nothing behind it, got 'mean:2'"),
     ({"sync": "ds-sync:star"}, r"takes, behind colons, schedule=random\|butterfly\|topology, size=WHOLE, .*'star'"),
     ({"sync": "ds-sync:1"}, "size of ds-sync must be a whole number from 2"),
     ({"sync": "gaia:-1"}, "threshold of gaia must be a number in"),
     ({"sync": "gaia:speed=3"}, "gaia takes, .*got 'speed=3'"),
     ({"sync": "server-mean:2"}, "server-mean takes nothing behind it"),
     ({"sync": "leader:c1=2"}, "c1 of leader must be"),
     ({"sync": "elastic:0"}, "beta of elastic must be"),
     ({"sync": "elastic", "scheme": "pull-opt"}, "scheme is for adasum, .*blend, mean, spectral, sum; leave"),
     ({"sync": "ds-sync", "bits": 8}, "bits must be 32 with sync ds-sync, got 8"),
     ({"sync": "mean", "scheme": "push"}, "scheme must be one of")],
)  # fmt: skip
def test_wrong_names_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        agreed(RoundAgreement, **options)


@pytest.mark.parametrize(
    ("sync", "hosts", "said"),
    [("ds-sync:butterfly:2", 6, "The butterfly needs 2 hosts, or 4, 8 and so on, got 6"),
     ("gaia:sites=4", 6, "6 hosts do not make 4 sites of equally many"),
     ("ds-sync:topology:4", 9, "9 hosts do not make 2 sites of equally many")],
)  # fmt: skip
def test_a_wrong_number_of_hosts_is_refused(sync: str, hosts: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        run_hosts(sync, hosts, 1)
