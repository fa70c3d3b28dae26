"""FLAYER. Chen et al., 2024, https://arxiv.org/abs/2412.07062

In round t client k receives theta_g, the weights after round t - 1. Layers count from 1 at the input to L, the last s
of them are the head. Algorithm 1, with the place of each line here:

(2)     begun = theta_g in layers 1 .. L - s, A theta_k + (1 - A) theta_g in the head      `blend_head`
(3)     trained = begun - rate_i gradient_i, SGD over the batches of the local epochs      the phases of `on`
(4)     rate_i = rate (1 + ln(1 + 1 / |g_i|) i / L)                                        `_layerwise.py`
(5)     sent fraction of layer i = min(max(i / L, 0.1), 1)                                 `_masks.py`
(6)     change = |trained - begun|                                                         `upload`, `remember_start`
(7, 8)  mask_i = 1 at the largest changes of layer i                                       `_masks.py`
(9)     sent = mask * trained                                                              `upload`
line 12 theta_g = mean of what was sent, by samples, over those who sent an entry          `core/server.py`

theta_k is the head that k trained when it last took part, before masking, and A is that model's accuracy
(`note_accuracy`); A = 0 before k took part. The model that Algorithm 1 returns, and that `before_local` evaluates, is
the begun one.
"""

from dataclasses import replace
from typing import Annotated, Literal

import torch

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.optimizers import SGD
from ..core.phases import Phase, Stage
from ..core.schedules import Schedule
from ..core.selectors import HEAD, Selector, below
from ..core.signatures import Length, Rate, at_least, configurable
from ..errors import PartitaError
from ..tensors import Tensors, network_name, only, prefixed, under
from ._layerwise import Layerwise, official_factors, paper_factors
from ._masks import largest_changes, official_changes
from .fedavg import fedavg

ACCURACY = "flayer/accuracy"
BEGAN = "began/"


@configurable
def flayer(
    *,
    on: Algorithm = fedavg(optimizer=SGD(0.005)),
    variant: Literal["paper", "official"] = "paper",
    head: Selector = HEAD,
    agg: Literal["auto", "accuracy", "received", "own", "none"] = "auto",
    lr: bool = True,
    mask: bool = True,
    recompute: Literal["round", "epoch", "step"] | None = None,
    max_factor: Annotated[float, at_least(1)] | None = None,
    middle_rate: Rate | tuple[Rate, ...] = 1.0,
    head_rate: Rate = 0.2,
    first_head_rate: Rate | None = None,
    joint_mask: bool = False,
    dilute: bool = False,
    head_warmup_epochs: Length | None = None,
    accuracy_of: Literal["held_out", "train"] = "held_out",
    everyone: bool = False,
) -> Algorithm:
    """Blend the head by the client's accuracy (agg), learn by layer (lr), send the largest changes (mask).

    The three parts act on FedAvg or on another method. `agg` may also take the head as received or the client's own
    in place of the blend; `auto` leaves the mixture of a method that makes its own (FedALA) alone.
    `variant="official"` does what the published code does: its layers, rates (`middle_rate` 20 for its CNN, or one for
    each middle layer) and masks, a head epoch before each use (in the first round at `first_head_rate`, 0.1 for its
    ResNet and fastText), and the accuracy of the model it began with. With `everyone`, as there, clients that do not
    take part initialise too, and keep that. `dilute` averages unsent entries as zeros.
    """
    official = variant == "official"
    if on.predict or not on.view.direct:
        raise PartitaError(
            f"FLAYER on {on.label}: its model is not the weights of one network, so that there is no head to blend. "
            "Choose a method whose model is, such as fedavg, fedper, fedrep, ditto or fedala."
        )
    agg = ("none" if on.mixed else "accuracy") if agg == "auto" else agg
    trust = {"received": 0.0, "own": 1.0}.get(agg)
    warmup_epochs = int(official) if head_warmup_epochs is None else head_warmup_epochs
    factors = official_factors(middle_rate, head_rate) if official else paper_factors(max_factor)

    def blend_head(tensors: Tensors, client: Client) -> Tensors:
        """Equation 2: the head becomes A * own + (1 - A) * received, running statistics too where they are shared."""
        share = tensors[ACCURACY] if trust is None else trust
        blended: Tensors = {}
        for name, tensor in only(tensors, on.view.place(head)(client.task.network, frozenset(tensors))).items():
            if network_name(name) not in client.received:
                continue  # Counters, frozen tensors, and running statistics where each client has its own.
            own = client.own.get(name)
            # Where the method keeps its own, the received one; where it made another, that.
            other = client.received[network_name(name)] if tensor is own else tensor
            if own is None and agg == "own":
                own = client.initial[name]
            blended[name] = other if own is None else share * own + (1 - share) * other
        return tensors | blended

    def start(tensors: Tensors, client: Client) -> Tensors:
        return blend_head(on.start(tensors, client), client)

    def remember_start(tensors: Tensors, client: Client) -> Tensors:
        """Equation 6 measures changes from here where the head was trained (or mixed) since the start."""
        return tensors | prefixed(BEGAN, only(tensors, on.view.place(head)(client.task.network, frozenset(tensors))))

    def note_accuracy(tensors: Tensors, client: Client) -> Tensors:
        """Note the client's accuracy, the share of its own head in the next round (A in equation 2).

        It is that of the trained model, or of the one that it began with (`official`).
        """
        samples = client.held_out if accuracy_of == "held_out" else client.train
        accuracy = client.task.accuracy(on.view.weights(tensors, client.task.network), samples)
        return tensors | {ACCURACY: torch.full_like(tensors[ACCURACY], accuracy)}

    def layerwise(stage: Stage) -> Stage:
        if not lr or not isinstance(stage, Phase) or stage.view != on.view:
            return stage
        if not isinstance(stage.optimizer, SGD):
            raise PartitaError(
                f"FLAYER on {on.label}: rates by layer are factors of SGD's, not {type(stage.optimizer).__name__}'s. "
                "Train with SGD, or leave the rates as they are with lr=False."
            )
        rates = Layerwise(stage.optimizer, factors, recompute=recompute or ("epoch" if official else "round"))
        return replace(stage, optimizer=rates)

    def upload(before: Tensors, after: Tensors, client: Client) -> tuple[Tensors, Tensors | None]:
        """Equations 6 to 9: of what the method uploads, the entries that changed most since the client began."""
        values, _ = on.upload(before, after, client)
        before = before | under(BEGAN, after)
        network, common = client.task.network, {name: t for name, t in values.items() if name in before}
        masks = (
            official_changes(before, common, network)
            if official
            else largest_changes(before, common, network, jointly=joint_mask)
        )
        if dilute:
            return values | {name: values[name] * masks[name] for name in masks}, None
        return values, masks

    training = tuple(map(layerwise, on.phases))
    at, trains = next((i, s) for i, s in enumerate(on.phases) if isinstance(s, Phase) and s.view == on.view)
    blends = agg != "none"
    initialise: tuple[Stage, ...] = (blend_head,) if blends and on.mixed else ()
    if warmup_epochs:
        rate = trains.optimizer.lr * (head_rate if official else 1.0)
        first = 1.0 if first_head_rate is None else trains.optimizer.lr * first_head_rate / rate
        warm_up = SGD(rate, schedule=Schedule(f"first:{first:g}", lambda t, rounds: first if t == 0 else 1.0))
        initialise += (Phase(on.view.place(head), warm_up, epochs=warmup_epochs, view=on.view),)
    initialise_training = (*initialise, remember_start) if mask and initialise else initialise
    note: tuple[Stage, ...] = (note_accuracy,) if agg == "accuracy" else ()
    before_training, after_training = (note, ()) if official else ((), note)
    return replace(
        on,
        shared=on.shared | head,
        keep=(~on.shared if on.keep is None else on.keep) | on.view.place(head) | below("flayer/"),
        expand=lambda client: on.expand(client) | {ACCURACY: _zero_like(client)},
        start=start if blends and not on.mixed else on.start,
        phases=(*training[:at], *initialise_training, *before_training, *training[at:], *after_training),
        absent=(*initialise, *note) if everyone else on.absent,
        finetune=(*on.finetune, *initialise) if on.mixed else (*initialise, *on.finetune),
        upload=upload if mask else on.upload,
    )


def _zero_like(client: Client) -> torch.Tensor:
    return torch.zeros((), dtype=next(iter(client.task.weights.values())).dtype)
