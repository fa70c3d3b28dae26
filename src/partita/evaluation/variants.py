"""Which of a client's models is evaluated? A client has up to four in a round."""

from collections.abc import Mapping
from typing import Literal

Variant = Literal["initial", "before_local", "after_local", "after_finetune"]
VARIANTS: Mapping[Variant, str] = {
    "initial": "initial model",
    "before_local": "before local training",
    "after_local": "after local training",
    "after_finetune": "after fine-tuning",
}
"""In words, in the order in which they arise.

- `initial`: the model of a client that has no state of its own yet.
- `before_local`: what a client has after the download.
- `after_local`: what a client has after its training in the round.
- `after_finetune`: `before_local`, then fine-tuned, where the method fine-tunes.
"""
