"""Click models in plain PyTorch: EmbeddingBag(sparse=True) for each table and sparse Adagrad. One JSON line."""

from __future__ import annotations

from typing import Any

from dlrm_peer import measure, parse


def main() -> None:
    args = parse(__doc__)

    import torch

    torch.sparse.check_sparse_tensor_invariants.disable()  # the default, said aloud: else Adagrad warns at each run

    class Bags:
        """A module for each table; Adagrad keeps an accumulator for each number, as PyTorch does."""

        def __init__(self, num_tables: int) -> None:
            self.bags = [torch.nn.EmbeddingBag(args.rows, args.dim, sparse=True, mode="sum") for _ in range(num_tables)]
            for bag in self.bags:
                torch.nn.init.uniform_(bag.weight, -(args.rows**-0.5), args.rows**-0.5)
            weights = [bag.weight for bag in self.bags]
            self.optimizer = torch.optim.Adagrad(weights, lr=args.learning_rate)

        def batch(self, ids_BF: Any) -> Any:
            return list(ids_BF.t().contiguous().unsqueeze(2))  # (B, 1): every bag holds one id

        def look_up(self, batch: Any) -> Any:
            return torch.stack([bag(ids) for bag, ids in zip(self.bags, batch, strict=True)], dim=1)

        def update(self) -> None:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

    measure(Bags, args, engine="torch EmbeddingBag(sparse=True) + Adagrad")


if __name__ == "__main__":
    main()
