"""Values of edges by ADMM: steps down the gradient of a network's loss, projections on graphs with fewer edges, duals.

Source: GCoD (You et al., HPCA 2022): with a the values, z the pruned ones, u the duals, S entries, |i - j| how far an
entry is from the diagonal, in places,

    minimize over a    loss(a) + phi / S sum over entries of |i - j| a_ij + rho |a - z + u|^2    (some steps)
    z = a + u without the pairs of least value,  u = u + a - z

(Boyd et al. 2011, sections 3.1 and 9.1). Ours: a starts from all edges with z = a and u = 0, stays within 0..1, and is
one value for an edge and its reverse, so that what is symmetric stays so.

Legend: N nodes, S edges, U pairs of nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from any2vec.plan.sharding.pruning import PruneOptions, largest, pair_numbers

Loss = Callable[[torch.Tensor], torch.Tensor]
"""of edges' values (S,), with their gradient"""


class EdgeValues:
    """The values of a graph's pairs of nodes, while they are tuned.

    Args:
        edge_index: int64 (2, S), from place to place in the order of the blocks. loss: of values of those edges.
    """

    def __init__(self, edge_index: torch.Tensor, num_nodes: int, loss: Loss, options: PruneOptions) -> None:
        src_S, dst_S = edge_index.numpy()
        pair_S, num_pairs = pair_numbers(src_S, dst_S, num_nodes)
        self.pair_S, self.loss, self.options = torch.from_numpy(pair_S), loss, options
        self.distance_U = np.zeros(num_pairs, np.int64)
        self.distance_U[pair_S[pair_S >= 0]] = np.abs(src_S - dst_S)[pair_S >= 0]
        entries_U = np.bincount(pair_S[pair_S >= 0], minlength=num_pairs)
        self._pull_U = torch.from_numpy(options.polarization * self.distance_U * entries_U / max(1, len(src_S)))
        self.a_U = torch.ones(num_pairs, dtype=torch.float64)
        self.z_U, self.u_U = self.a_U.clone(), torch.zeros_like(self.a_U)

    def of_edges(self, value_U: torch.Tensor) -> torch.Tensor:
        """float64 (S,): the values of pairs, of each edge; 1 of self-loops."""
        return torch.cat([value_U, value_U.new_ones(1)])[self.pair_S]

    def objective(self, value_U: torch.Tensor) -> torch.Tensor:
        """What a step goes down: loss, polarization and penalty."""
        apart = value_U - self.z_U + self.u_U
        return self.loss(self.of_edges(value_U)) + self._pull_U @ value_U + self.options.penalty * apart @ apart

    def step(self) -> None:
        """One of gradient descent, projected on values from 0 to 1."""
        value_U = self.a_U.clone().requires_grad_()
        (gradient_U,) = torch.autograd.grad(self.objective(value_U), value_U)
        self.a_U = (self.a_U - self.options.step_size * gradient_U).clamp_(0, 1)

    def project(self) -> None:
        """The nearest values to a + u of which a share is 0."""
        found = self.a_U + self.u_U
        kept = torch.from_numpy(largest(found.numpy(), self.distance_U, self.options.share))
        self.z_U = torch.where(kept, found, 0)

    def update_duals(self) -> None:
        """Add up by how much values miss the pruned ones."""
        self.u_U = self.u_U + self.a_U - self.z_U

    @property
    def residual(self) -> float:
        """How far values are from the pruned ones: the root of the mean square."""
        return float((self.a_U - self.z_U).square().mean().sqrt()) if len(self.a_U) else 0.0

    def tune(self, progress: Callable[[int, int], None] | None = None) -> list[float]:
        """All rounds; the residual behind each. progress: is called with how many are over, and of how many."""
        found: list[float] = []
        for number in range(self.options.rounds):
            if progress is not None:
                progress(number, self.options.rounds)
            for _ in range(self.options.steps):
                self.step()
            self.project()
            self.update_duals()
            found.append(self.residual)
        if progress is not None:
            progress(self.options.rounds, self.options.rounds)
        return found

    def kept(self) -> np.ndarray:
        """bool (S,): the edges that stay, self-loops always."""
        kept = largest(self.a_U.numpy(), self.distance_U, self.options.share)
        return np.append(kept, True)[self.pair_S.numpy()]
