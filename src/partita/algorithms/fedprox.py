"""FedProx. Li et al., 2020, https://arxiv.org/abs/1812.06127"""

import warnings
from dataclasses import replace

from ..core.algorithm import Algorithm
from ..core.penalties import Proximal, together
from ..core.phases import Phase, Stage
from ..core.signatures import Strength, configurable
from ..core.views import PLAIN
from ..errors import DegenerateWarning, PartitaError
from .fedavg import fedavg


@configurable
def fedprox(*, mu: Strength = 0.01, on: Algorithm = fedavg()) -> Algorithm:
    """Keep shared tensors near the received ones by (mu / 2) |w - w_t|^2; on FedAvg, or on any other method."""
    if mu == 0:
        warnings.warn(f"FedProx with mu = 0 is {on.name}. Set mu > 0.", DegenerateWarning, stacklevel=3)

    def drawn(stage: Stage) -> Stage:
        if isinstance(stage, Phase) and stage.view == PLAIN:
            return replace(stage, penalty=together(stage.penalty, Proximal(mu)))
        return stage

    if not any(isinstance(stage, Phase) and stage.view == PLAIN for stage in on.phases):
        raise PartitaError(
            f"FedProx on {on.label}: no phase trains the network as it was received. Choose a method that does, such "
            "as fedavg or fedper."
        )
    return replace(on, phases=tuple(map(drawn, on.phases)))
