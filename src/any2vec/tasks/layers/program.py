"""One host of a run of a GA-MLP: its layers, by pdADMM-G or back-propagation; rank 0 answers for all nodes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np

from any2vec.checks import parse_json
from any2vec.cluster.counters import summed
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport, gather_json, text_of, text_part
from any2vec.data.attributed.predictions import PREDICTIONS, NodePredictions, class_shares
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, FormatError, JobError
from any2vec.models.layers.admm.learner import AdmmLearner
from any2vec.models.layers.classifier import NodeClassifier
from any2vec.models.layers.ga_mlp import CLASSIFIER, GAMLP, stage_ends
from any2vec.models.layers.network_learner import NetworkLearner, check_finite
from any2vec.models.layers.weights import Course, Weights
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.tasks.layers.prepare import PreparedNodes, probe_accuracies
from any2vec.train.checkpoint import FILE
from any2vec.train.in_memory.program import InMemoryProgram
from any2vec.train.loop import LocalDriver
from any2vec.train.progress import Recorder
from any2vec.train.result import Result
from any2vec.train.spec import Request
from any2vec.types import State, Work

SETTLED_EVERY = 25
"""epochs after which hosts meet, for records, checkpoints and stops; between them only neighbors speak"""


class LayerDriver(LocalDriver):
    """Neighbors agree within an epoch, while they work; all hosts meet now and then."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs

    def is_settled(self, work: Work[Any]) -> bool:
        return (work.epoch + 1) % SETTLED_EVERY == 0 or work.epoch + 1 == self._epochs


class NodeProgram(InMemoryProgram):
    """The layers of this host, whichever way they are trained."""

    learner: NetworkLearner

    def __init__(self, request: Request, prepared: PreparedNodes, transport: Transport) -> None:
        super().__init__(request, transport)
        self.prepared, self.metadata = prepared, prepared.metadata
        model: GAMLP = request.spec.model
        if transport.hosts > model.num_layers:
            raise JobError(
                f"There are more hosts than layers, {transport.hosts} and {model.num_layers}: each host needs a layer."
            )
        x_TX, self._scale = prepared.scaled
        label_T = prepared.label_N[prepared.rows["train"]]
        course = Course(model.sizes, tuple(stage_ends(len(model.sizes), request.spec.run.epochs)))
        self.learner = self._learner(course, x_TX, label_T)
        self.driver = LayerDriver(request.spec.run.epochs)
        nodes = len(label_T)
        schedule = EpochSchedule(bounds=(0, nodes), epochs=request.spec.run.epochs, unit=nodes, piece=nodes)
        self.schedule = self._resumed(schedule, 1)
        self._answered: tuple[NodeClassifier, np.ndarray, np.ndarray] | None = None

    def compile(self) -> None:
        """Nothing is compiled; what a checkpoint holds is put in place."""
        if self.checkpoint is None:
            return
        try:
            self.learner.load_state_dict(self.checkpoint.state, self.checkpoint.place["epoch"])
        except (KeyError, ValueError, IndexError, TypeError, RuntimeError) as error:
            raise FormatError(f"{FILE} does not hold the layers of this run; start again with --overwrite.") from error

    @property
    def memory(self) -> State:
        return self.learner.memory()

    def end(self) -> None:
        self.learner.quiesce()

    def agreed(self) -> dict[str, np.ndarray] | None:
        state = self.learner.state_dict()
        parts = [Part("dense", np.ascontiguousarray(array)) for array in state.values()]
        found = self.transport.gather([text_part(json.dumps(list(state))), *parts], "layers")
        if not found:
            return None
        return {
            name: part.array
            for names, *arrays in found.values()
            for name, part in zip(parse_json(text_of(names)), arrays, strict=True)
        }

    def result(self, agreed: dict[str, np.ndarray]) -> Result:
        classifier, vectors, score_NC = self._answer(agreed)
        prepared = self.prepared
        embeddings = Embeddings(prepared.keys, vectors, meta={"model": self.request.spec.model.as_dict()})
        predictions = NodePredictions(
            prepared.keys.names, classifier.classes, score_NC, class_shares, prepared.label_N, prepared.rows
        )  # fmt: skip
        return Result(embeddings, scorer=classifier, parts={CLASSIFIER: classifier, PREDICTIONS: predictions})

    def gather_metrics(self, recorder: Recorder) -> dict[str, Any]:
        agreed = self.agreed()
        by_host = gather_json(self.transport, {"bytes": self._bytes()} | self.learner.host_metrics(), "facts")
        if agreed is None:
            return {}
        return (
            self._accuracies(agreed)
            | {
                "trainer": self.request.spec.model.trainer,
                "hosts": self.transport.hosts,
                "layers": self.request.spec.model.num_layers,
                "bytes_by_kind": summed([host["bytes"] for host in by_host]),
                "layers_by_host": [stop - start for start, stop in pairwise(self.learner.bounds)],
                "seconds_by_layer": [spent for host in by_host for spent in host["seconds"]],
            }
            | self.learner.metrics(by_host)
        )

    def _learner(self, course: Course, x_TX: np.ndarray, label_T: np.ndarray) -> NetworkLearner:
        """What learns on this host.

        Raises:
            DataError: there are more micro-batches than nodes.
        """
        request, model = self.request, self.request.spec.model
        given = model, course, x_TX, label_T, len(self.prepared.classes), request.spec.run.seed, self.transport
        if model.trainer == "pdadmm":
            return AdmmLearner(*given, request.agreement is None or request.agreement.dual == "sent")
        from any2vec.models.layers.backprop.learner import PipelineLearner

        if model.micro_batches > len(label_T):
            raise DataError(
                f"There are more micro-batches than training nodes, {model.micro_batches:,} and {len(label_T):,}; "
                "lower micro_batches."
            )
        return PipelineLearner(*given)

    def _answer(self, agreed: dict[str, np.ndarray]) -> tuple[NodeClassifier, np.ndarray, np.ndarray]:
        """(the classifier, vectors of all nodes, scores of their classes); made once, when the training is over."""
        if self._answered is None:
            layers = sum(name.endswith(".w") for name in agreed)
            weights = [Weights(agreed[f"layer{at}.w"], agreed[f"layer{at}.b"][0]) for at in range(layers)]
            weights[0] = weights[0]._replace(w_IO=weights[0].w_IO * np.float32(self._scale))
            prepared = self.prepared
            classifier = NodeClassifier(self.request.spec.model, weights, prepared.classes, prepared.options.psi)
            with np.errstate(over="ignore", invalid="ignore"):
                vectors, scores = classifier.answer(prepared.adjacency, prepared.features)
            check_finite(scores, self.request.spec.model)
            self._answered = classifier, vectors, scores
        return self._answered

    def _bytes(self) -> dict[str, int]:
        """Bytes that this host has sent, by kind: what neighbors say; weights where the network grew; what steers."""
        phases = self.learner.phases
        found = dict.fromkeys((*phases, "weights", "control"), 0)
        for (kind, _, phase), count in self.transport.counters.sent.items():
            found["control" if kind != "dense" else phase if phase in phases else "weights"] += count
        return found

    def _accuracies(self, agreed: dict[str, np.ndarray]) -> dict[str, float | None]:
        """Share of the nodes of each part of the split whose class is predicted correctly; None without nodes."""
        found = self.prepared.accuracies(self._answer(agreed)[2].argmax(axis=1))
        if self.prepared.options.linear_probe:
            found |= {f"linear_{name}": value for name, value in probe_accuracies(self.prepared).items()}
        return found
