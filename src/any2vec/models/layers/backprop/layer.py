"""One layer for back-propagation in micro-batches: what it keeps between the way up and the way down.

Legend: B nodes of a micro-batch, I inputs and O outputs of a layer.
"""

from __future__ import annotations

import numpy as np
import torch

from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.models.layers.weights import Weights
from any2vec.types import State

_KINDS: dict[str, type[torch.optim.Optimizer]] = {
    "gd": torch.optim.SGD, "adadelta": torch.optim.Adadelta, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam,
}  # fmt: skip
_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class BackpropLayer:
    """Layer `index` of a network, with an optimizer of its own.

    What goes in and comes out are NumPy arrays, so that a layer need not know where its neighbors are. PyTorch works
    on copies in memory of its own: what its products round to may depend on how memory is aligned.

    Args:
        weights: where it starts; they are copied.
        is_last: it has no activation.
    """

    def __init__(self, index: int, weights: Weights, is_last: bool, model: GAMLP) -> None:
        self.index = index
        self._w_IO, self._b_O = (torch.tensor(array, requires_grad=True) for array in weights)
        self._f = None if is_last else _ACTIVATIONS[model.activation]
        self._optimizer = _KINDS[model.trainer]([self._w_IO, self._b_O], lr=model.rate)  # type: ignore[call-arg]
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """of each micro-batch that is on its way: what came in, and what went out"""

    def up(self, micro: int, input_BI: np.ndarray) -> np.ndarray:
        """f(h W + b) of a micro-batch, (B, O)."""
        h_BI = torch.tensor(input_BI, requires_grad=self.index > 0)  # nobody asks for the features' gradient
        a_BO = torch.addmm(self._b_O, h_BI, self._w_IO)
        out_BO = a_BO if self._f is None else self._f(a_BO)
        self._kept[micro] = h_BI, out_BO
        return out_BO.detach().numpy()

    def down(self, micro: int, gradient_BO: np.ndarray) -> np.ndarray | None:
        """The gradient of what came in, (B, I), None for the first layer; those of W and b are added up."""
        h_BI, out_BO = self._kept.pop(micro)
        out_BO.backward(torch.tensor(gradient_BO))
        return None if h_BI.grad is None else h_BI.grad.numpy()

    def step(self, decay: float) -> None:
        """One step of the optimizer on the gradients so far, the weight decay's behind them."""
        with torch.no_grad():
            assert self._w_IO.grad is not None
            self._w_IO.grad.add_(self._w_IO, alpha=decay)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def state_dict(self) -> State:
        """Copies of the weights, and of what the optimizer keeps, two-dimensional: hosts send it to each other, too."""
        found: dict[str, np.ndarray] = {}
        for name, tensor in self._parameters.items():
            found[name] = tensor.detach().numpy().copy()
            for kept, value in self._optimizer.state[tensor].items():
                found[f"{name}.{kept}"] = torch.as_tensor(value, dtype=torch.float32).numpy().copy()
        return {name: array if array.ndim == 2 else array.reshape(1, -1) for name, array in found.items()}

    def load_state_dict(self, state: State) -> None:
        """Go on from a state."""
        for name, tensor in self._parameters.items():
            with torch.no_grad():
                tensor.copy_(torch.tensor(np.array(state[name])).reshape(tensor.shape))
            self._optimizer.state[tensor] |= {
                key.removeprefix(f"{name}."): torch.tensor(np.array(value)).reshape(
                    () if key.endswith(".step") else tensor.shape
                )
                for key, value in state.items()
                if key.startswith(f"{name}.")
            }

    @property
    def num_inputs(self) -> int:
        """I."""
        return self._w_IO.shape[0]

    @property
    def num_outputs(self) -> int:
        """O."""
        return self._w_IO.shape[1]

    @property
    def _parameters(self) -> dict[str, torch.Tensor]:
        return {"w": self._w_IO, "b": self._b_O}
