"""GA-MLP, a node classifier whose layers learn at the same time: its options. Light: no NumPy, no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Annotated, ClassVar, Literal

from any2vec.checks import Number, Whole
from any2vec.errors import InputError
from any2vec.models.config import ModelConfig

CLASSIFIER = "classifier.safetensors"
"""file of a trained one in its run folder"""
RATES = {"gd": 0.1, "adadelta": 1.0, "adagrad": 0.01, "adam": 0.001}
"""learning rate of the trainers by back-propagation where nobody says it"""
MOST_LAYERS = 1000


@dataclass(frozen=True, kw_only=True)
class GAMLP(ModelConfig):
    """Graph-augmented MLP that classifies nodes; its layers are trained in parallel (pdADMM-G, pdADMM-G-Q).

    Wang et al., arXiv 2105.09837 (TNNLS 2022). Objective: cross-entropy summed over the training nodes +
    weight_decay / 2 `|W|^2` + nu / 2 times the squared residuals. Defaults were chosen on the validation nodes
    of Cora and Citeseer; the published recipe is `literal`: step lengths from 20 by doubling, ten times at most.

    With growth, half of the epochs train the first size, and the others share the rest equally; only with relu does
    growth leave all predictions unchanged. rho over 4 nu is proven to converge; rho_growth multiplies nu, too, if rho
    is not given. micro_batches: parts of the training nodes that consecutive hosts process at the same time (GPipe);
    on one host they only save memory. quantize 8 and 16: even steps over a range that a forward pass calibrates; a grid
    of LOW:HIGH has all whole numbers between them. normalize row: each row sums to 1, then one factor for all.

    Raises:
        InputError: an option is not legal, or would do nothing.
    """

    name: ClassVar[str] = "ga-mlp"
    default_epochs: ClassVar[int] = 200

    layers: Annotated[int | str, Whole(2, MOST_LAYERS)] = 10
    """layers, 2..1000"""
    width: Annotated[int, Whole(1, 65_536)] = 100
    """neurons of a hidden layer, 1..65,536"""
    growth: str = "2-5"
    """numbers of layers to start with, like 2-5; empty: all"""
    psi: Literal["powers", "pagerank"] = "powers"
    """features of neighbors: powers of the adjacency, or personalized PageRank"""
    hops: Annotated[int, Whole(0, 100)] = 3
    """highest power, or PageRank steps, 0..100"""
    restart: Annotated[float, Number(0, 1, open_low=True)] = 0.15
    """restart probability of pagerank, in (0, 1]"""
    normalize: Literal["scale", "row", "none"] = "scale"
    """scaling of features"""
    activation: Literal["relu", "tanh", "sigmoid"] = "relu"
    """of hidden layers"""
    trainer: Literal["pdadmm", "gd", "adadelta", "adagrad", "adam"] = "pdadmm"
    """pdADMM, or optimizers by back-propagation"""
    learning_rate: Annotated[float | None, Number(0, 10, open_low=True)] = None
    """of back-propagation, in (0, 10]; by default gd 0.1, adadelta 1, adagrad 0.01, adam 0.001"""
    micro_batches: Annotated[int, Whole(1, 65_536)] = 1
    """chunks of back-propagation, 1..65,536"""
    nu: Annotated[float | None, Number(0, 1000, open_low=True)] = None
    """penalty within layers, in (0, 1000]; by default 0.01, with literal 0.0001"""
    rho: Annotated[float | None, Number(0, 1000, open_low=True)] = None
    """penalty between layers, in (0, 1000]; by default nu"""
    rho_growth: Annotated[float, Number(1, 1000)] = 1.0
    """growth of rho, up to 1, in [1, 1000]"""
    rho_every: Annotated[int, Whole(1, 1_000_000)] = 50
    """epochs per growth of rho, 1..1,000,000"""
    weight_decay: Annotated[float | None, Number(0, 1e6)] = None
    """weight decay, 0 or more; by default 0.3, with literal 0"""
    decay_growth: Annotated[float, Number(0, 1)] = 0.1
    """factor on weight_decay at each growth, in [0, 1]"""
    quantize: Literal["none", "8", "16", "grid"] = "none"
    """quantization of what layers exchange"""
    quantized: Literal["p", "q", "pq"] = "pq"
    """inputs p, outputs q, or both"""
    grid: str = "-1:20"
    """LOW:HIGH, or values like -1,0,0.5"""
    literal: bool = False
    """the published step sizes and penalties"""

    def __post_init__(self) -> None:
        if isinstance(self.layers, str) and self.layers.isdecimal():  # the flag is also of models whose layers differ
            object.__setattr__(self, "layers", int(self.layers))
        super().__post_init__()
        _ = self.sizes, self.grid_values
        self._check_idle()

    def _check_idle(self) -> None:
        """Raise InputError for an option that would do nothing."""
        default = type(self).__dataclass_fields__
        wrong = {
            "learning_rate": self.trainer == "pdadmm", "micro_batches": self.trainer == "pdadmm",
            "restart": self.psi == "powers", "quantized": self.quantize == "none", "grid": self.quantize != "grid",
            "rho_every": self.rho_growth == 1,
        }  # fmt: skip
        if self.trainer != "pdadmm":
            wrong |= dict.fromkeys(("nu", "rho", "rho_growth", "quantize", "literal"), True)
        for name, is_idle in wrong.items():
            if is_idle and getattr(self, name) != default[name].default:
                other = {"restart": "psi powers", "quantized": "quantize none", "grid": f"quantize {self.quantize}"}
                other["rho_every"] = "rho_growth 1"
                raise InputError(
                    f"{name} does nothing with {other.get(name, f'trainer {self.trainer}')}; leave it out."
                )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of layers, ascending: those of the growth that are fewer than all, and all."""
        found = self.growth.split("-") if self.growth else []
        sizes = [int(size) if size.isdecimal() and len(size) < 5 else 0 for size in found]
        if any(not 2 <= size <= MOST_LAYERS for size in sizes) or sorted(set(sizes)) != sizes:
            raise InputError(f"growth must be ascending numbers of layers from 2 on, like 2-5, got {self.growth!r}.")
        return (*(size for size in sizes if size < self.num_layers), self.num_layers)

    @property
    def num_layers(self) -> int:
        """Layers of the network at the end."""
        return int(self.layers)

    @property
    def grid_values(self) -> tuple[float, ...]:
        """The values of `grid`."""
        try:
            if ":" in self.grid:
                low, high = (int(end) for end in self.grid.split(":"))
                values = tuple(float(value) for value in range(low, high + 1)) if 0 < high - low < 65_536 else ()
            else:
                values = tuple(float(value) for value in self.grid.split(","))
        except ValueError:
            values = ()
        if not 2 <= len(values) <= 65_536 or any(not low < high for low, high in pairwise(values)):
            raise InputError(
                f"grid must be LOW:HIGH in whole numbers, or 2 to 65,536 ascending numbers with commas; got "
                f"{self.grid!r}."
            )
        return values

    @property
    def dim(self) -> int:
        """Numbers of a node's vector: what the last hidden layer makes of it."""
        return self.width

    @property
    def start_nu(self) -> float:
        """nu at the start."""
        return self.nu or (1e-4 if self.literal else 0.01)

    @property
    def start_decay(self) -> float:
        """Weight decay at the start."""
        if self.weight_decay is None:
            return 0.0 if self.literal else 0.3
        return self.weight_decay

    @property
    def rate(self) -> float:
        """Learning rate of a trainer by back-propagation."""
        return self.learning_rate or RATES.get(self.trainer, 0.0)

    def penalties(self, epoch: int, stage: int) -> tuple[float, float, float]:
        """(nu, rho, weight decay) of an epoch, from 0, of a stage of the growth, from 0."""
        try:
            factor = self.rho_growth ** (epoch // self.rho_every)
        except OverflowError:  # beyond floats, where rho has long been 1
            factor = inf
        rho = self.rho or self.start_nu
        grown = max(rho, min(1.0, rho * factor))
        nu = self.start_nu if self.rho is not None else grown
        return nu, grown, self.start_decay * self.decay_growth**stage


def stage_ends(sizes: int, epochs: int) -> list[int]:
    """The epoch behind the last one of each size of a growth: half for the first, the rest for the others alike.

    Raises:
        InputError: there are fewer epochs than sizes.
    """
    if epochs < sizes:
        raise InputError(f"epochs must be at least {sizes}, one for each size of the growth, got {epochs}.")
    if sizes == 1:
        return [epochs]
    first = max(1, min(epochs // 2, epochs - (sizes - 1)))
    return [first + (epochs - first) * stage // (sizes - 1) for stage in range(sizes)]
