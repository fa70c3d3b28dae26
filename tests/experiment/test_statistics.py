"""Statistics of batch norm must be finite too: the client whose data are sick is named, in its first round."""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import pytest
from torch import nn

from partita.core.samples import Samples
from partita.errors import DivergedError
from partita.experiment.executors.inline import Inline
from partita.experiment.settings.files import make
from partita.experiment.simulate import run_stages
from toys import small_federation


def normed(*, shape: tuple[int, ...], classes: int) -> nn.Module:
    layers: dict[str, nn.Module] = {"layer1": nn.Linear(shape[0], 4), "norm1": nn.BatchNorm1d(4), "relu": nn.ReLU()}
    return nn.Sequential(OrderedDict({**layers, "head": nn.Linear(4, classes)}))


@pytest.mark.filterwarnings("ignore::partita.errors.DegenerateWarning")
@pytest.mark.parametrize("buffers", ["follow", "local"])
@pytest.mark.parametrize("method", ["fedavg", "fedbn", "fedper", "local"])
def test_the_right_client_is_named(method: str, buffers: str) -> None:
    data = small_federation((8,) * 9)
    inputs = data.samples.inputs.float()
    inputs[data.roles[7]["train"][0]] *= 1e20
    sick = replace(data, samples=Samples(inputs, data.samples.targets))
    settings: dict[str, Any] = {"algorithm": {"name": method, "epochs": 1}, "rounds": 9, "buffers": buffers}
    made = replace(make({**settings, "model": "mlp", "participation": 1.0}, sick), model=normed)
    with pytest.raises(DivergedError, match=r"client 7 .*(in|after) round 1"):
        run_stages(made, Inline())
