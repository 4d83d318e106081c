"""One host of GA-MLP on made-up nodes: seconds of an iteration, of each layer's work, and bytes. JSON on rank 0.

Alone, or as one of several processes that torchrun (or a benchmark that sets its variables) has started.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack

import numpy as np
from threadpoolctl import threadpool_limits

from any2vec.cluster.launch.join import join, joined
from any2vec.cluster.threads import single_host_transport
from any2vec.cluster.transport import Transport, text_of, text_part
from any2vec.models.layers.admm.learner import AdmmLearner
from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.models.layers.network_learner import NetworkLearner
from any2vec.models.layers.weights import Course
from any2vec.plan.order.epochs import EpochSchedule


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("layers", 16), ("width", 1000), ("nodes", 140), ("inputs", 5732), ("classes", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--quantize", default="none")
    parser.add_argument("--dual", default="sent")
    parser.add_argument("--trainer", default="pdadmm")
    parser.add_argument("--micro-batches", type=int, default=1)
    options = parser.parse_args()
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(limits=1, user_api="blas"))
        if options.trainer != "pdadmm":
            from any2vec.models.torch_threads import torch_threads

            stack.enter_context(torch_threads(1))
        transport = stack.enter_context(join(json.dumps(vars(options)))) if joined() else single_host_transport()
        found = run(options, transport)
    if found:
        print(json.dumps(found))


def run(options: argparse.Namespace, transport: Transport) -> dict[str, object]:
    random = np.random.default_rng(0)
    x_TX = random.standard_normal((options.nodes, options.inputs), np.float32) * np.float32(5 / options.inputs**0.5)
    label_T = random.integers(0, options.classes, options.nodes)
    epochs = options.warm + options.iterations
    learner = learner_of(options, Course((options.layers,), (epochs,)), x_TX, label_T, transport)
    before: list[float] = []
    sent = 0
    for work in EpochSchedule(bounds=(0, options.nodes), epochs=epochs, unit=options.nodes, piece=options.nodes):
        if work.epoch == options.warm:
            learner.quiesce()
            transport.barrier()
            sent, began = transport.counters.bytes_sent(), time.perf_counter()
            before = list(learner.group.seconds) if learner.group else []
        learner.run(work)
    learner.quiesce()
    transport.barrier()
    seconds = (time.perf_counter() - began) / options.iterations
    after = learner.group.seconds if learner.group else []
    own = {
        "layers": [(end - start) / options.iterations for start, end in zip(before, after, strict=True)],
        "bytes": (transport.counters.bytes_sent() - sent) / options.iterations,
    }
    found = transport.gather([text_part(json.dumps(own))], "facts")
    reported = [json.loads(text_of(parts[0])) for parts in found.values()]
    return {} if not reported else {
        "seconds": seconds, "layers_by_host": [len(host["layers"]) for host in reported],
        "seconds_by_layer": [spent for host in reported for spent in host["layers"]],
        "bytes": [host["bytes"] for host in reported],
    }  # fmt: skip


def learner_of(
    options: argparse.Namespace, course: Course, x_TX: np.ndarray, label_T: np.ndarray, transport: Transport
) -> NetworkLearner:
    sizes = {"layers": options.layers, "width": options.width, "growth": ""}
    if options.trainer == "pdadmm":
        model, is_sent = GAMLP(**sizes, quantize=options.quantize), options.dual == "sent"
        return AdmmLearner(model, course, x_TX, label_T, options.classes, 1, transport, is_sent)
    from any2vec.models.layers.backprop.learner import PipelineLearner

    model = GAMLP(**sizes, trainer=options.trainer, micro_batches=options.micro_batches)
    return PipelineLearner(model, course, x_TX, label_T, options.classes, 1, transport)


if __name__ == "__main__":
    main()
