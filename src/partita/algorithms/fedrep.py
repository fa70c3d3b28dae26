"""FedRep. Collins et al., 2021, https://arxiv.org/abs/2102.07078"""

from dataclasses import replace

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.selectors import BODY, HEAD, NETWORK, WEIGHTS
from ..core.signatures import Length, configurable
from .fedalt import fedalt


@configurable
def fedrep(
    *,
    head_epochs: Length = 10,
    epochs: Length = 1,
    optimizer: SGD = SGD(0.01, momentum=0.5, weight_decay=1e-4, decayed=WEIGHTS),
    final_head_epochs: Length = 10,
    switched: bool = False,
) -> Algorithm:
    """Train the head for several epochs, then the body; before use, train the head once more.

    `switched` trains both with one optimizer whose learning rates are switched on and off: momentum of the body
    gathers while the head is trained.
    """
    separate = fedalt(personal=HEAD, personal_epochs=head_epochs, epochs=epochs, optimizer=optimizer)
    only_head, only_body = (replace(optimizer, rates=(*optimizer.rates, (part, 0.0))) for part in (BODY, HEAD))
    one_optimizer = (
        Phase(NETWORK, only_head, epochs=head_epochs, carry=True),
        Phase(NETWORK, only_body, epochs=epochs, carry=True),
    )
    return replace(
        separate,
        phases=one_optimizer if switched else separate.phases,
        finetune=(Phase(HEAD, optimizer, epochs=final_head_epochs),) if final_head_epochs else (),
    )
