"""One thread: small tensors, and as many test processes as cores."""

import torch

torch.set_num_threads(1)
