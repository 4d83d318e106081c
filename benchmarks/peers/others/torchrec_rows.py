"""Click models in TorchRec on a CPU: fused row-wise Adagrad. One JSON line. Runs in the environment 'torchrec'.

The engine is TorchRec's own FusedEmbeddingBagCollection, or fbgemm's SplitTableBatchedEmbeddingBagsCodegen alone,
which lies beneath it.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from dlrm_peer import measure, parse


def main() -> None:
    args = parse(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=["torchrec", "fbgemm"], default="torchrec")
    engine = parser.parse_known_args()[0].engine

    warnings.filterwarnings("ignore")  # of torchrec's own code; standard output holds the JSON alone
    import fbgemm_gpu
    import torch

    versions = {"fbgemm": fbgemm_gpu.__version__}
    if engine == "torchrec":
        import torchrec

        versions["torchrec"] = torchrec.__version__
    make = (torchrec_tables if engine == "torchrec" else fbgemm_tables)(torch, args)
    measure(make, args, engine=f"{engine}, fused row-wise Adagrad", versions=versions)


def torchrec_tables(torch: Any, args: argparse.Namespace) -> Any:
    """TorchRec's collection of bags whose optimizer runs within backward."""
    from torchrec.modules.embedding_configs import EmbeddingBagConfig
    from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
    from torchrec.optim import RowWiseAdagrad
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    class Collection:
        def __init__(self, num_tables: int) -> None:
            self.keys = [f"f{number}" for number in range(num_tables)]
            tables = [
                EmbeddingBagConfig(
                    name=f"t{number}", embedding_dim=args.dim, num_embeddings=args.rows, feature_names=[key]
                )
                for number, key in enumerate(self.keys)
            ]
            self.bags = FusedEmbeddingBagCollection(
                tables,
                optimizer_type=RowWiseAdagrad,
                optimizer_kwargs={"lr": args.learning_rate, "eps": 1e-10},
                device=torch.device("cpu"),
            )
            for weight in self.bags.state_dict().values():
                torch.nn.init.uniform_(weight, -(args.rows**-0.5), args.rows**-0.5)

        def batch(self, ids_BF: Any) -> Any:
            values = ids_BF.t().reshape(-1)
            offsets = torch.arange(values.numel() + 1)
            lengths = torch.ones(values.numel(), dtype=torch.int64)
            return KeyedJaggedTensor(self.keys, values, lengths=lengths, offsets=offsets)

        def look_up(self, batch: Any) -> Any:
            return self.bags(batch).values().view(-1, len(self.keys), args.dim)

        def update(self) -> None:
            """Within backward."""

    return Collection


def fbgemm_tables(torch: Any, args: argparse.Namespace) -> Any:
    """fbgemm's operator for all tables at once."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    class Split:
        def __init__(self, num_tables: int) -> None:
            self.num_tables = num_tables
            self.bags = SplitTableBatchedEmbeddingBagsCodegen(
                [(args.rows, args.dim, EmbeddingLocation.HOST, ComputeDevice.CPU)] * num_tables,
                optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
                learning_rate=args.learning_rate,
                eps=1e-10,
                pooling_mode=PoolingMode.SUM,
            )
            for weight in self.bags.split_embedding_weights():
                torch.nn.init.uniform_(weight, -(args.rows**-0.5), args.rows**-0.5)

        def batch(self, ids_BF: Any) -> Any:
            values = ids_BF.t().reshape(-1)
            return values, torch.arange(values.numel() + 1)

        def look_up(self, batch: Any) -> Any:
            return self.bags(*batch).view(-1, self.num_tables, args.dim)

        def update(self) -> None:
            """Within backward."""

    return Split


if __name__ == "__main__":
    main()
