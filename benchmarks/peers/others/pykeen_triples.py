"""PyKEEN on triples: one JSON line with the triples of training per second. Runs in the environment 'pykeen'."""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", required=True, help="head, relation, tail, split by tabs")
    parser.add_argument("--model", default="ComplEx")
    parser.add_argument("--dim", type=int, default=192, help="real numbers of a row")
    parser.add_argument("--batch", type=int, default=1000, help="triples of a step")
    parser.add_argument("--num-negatives", type=int, default=100, help="0: all entities")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1, help="timed, behind one that is not")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    args = parser.parse_args()

    import numpy as np
    import torch
    from pykeen.models import model_resolver
    from pykeen.training import LCWATrainingLoop, SLCWATrainingLoop, TrainingCallback
    from pykeen.triples import TriplesFactory

    logging.disable(logging.WARNING)
    torch.set_num_threads(args.threads)
    with Path(args.triples).open(encoding="utf-8") as lines:
        names = np.array([line.rstrip("\r\n").split("\t") for line in lines])
    is_whole = args.num_negatives == 0
    # Inverse triples ask for heads: both sides are learned, as any2vec does.
    factory = TriplesFactory.from_labeled_triples(names, create_inverse_triples=True)
    is_complex = args.model in ("ComplEx", "RotatE")
    model = model_resolver.make(
        args.model, triples_factory=factory, embedding_dim=args.dim // 2 if is_complex else args.dim, random_seed=1,
        loss="crossentropy" if is_whole else "softplus",
    )  # fmt: skip
    # PyKEEN's gradients are dense: a step goes over whole tables, and fused it does so once.
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.learning_rate, fused=True)
    if is_whole:
        loop = LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
    else:
        loop = SLCWATrainingLoop(
            model=model, triples_factory=factory, optimizer=optimizer,
            negative_sampler_kwargs={"num_negs_per_pos": args.num_negatives},
        )  # fmt: skip
    ends: list[float] = []

    class Ends(TrainingCallback):
        def post_epoch(self, epoch: int, epoch_loss: float, **kwargs: object) -> None:
            ends.append(time.perf_counter())

    loop.train(
        triples_factory=factory, num_epochs=1 + args.epochs, batch_size=args.batch, use_tqdm=False,
        use_tqdm_batch=False, callbacks=Ends,
    )  # fmt: skip
    seconds = (ends[-1] - ends[0]) / args.epochs
    print(json.dumps({"triples_per_s": len(names) / seconds, "epoch_seconds": seconds}))


if __name__ == "__main__":
    main()
