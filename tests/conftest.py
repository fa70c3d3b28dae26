"""One thread: small tensors, and as many test processes as cores. Random tests are the same on every run."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("partita", deadline=None, derandomize=True)
settings.load_profile("partita")
