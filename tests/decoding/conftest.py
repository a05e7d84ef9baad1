"""One thread: for tensors this small, a second one only costs time."""

import torch

torch.set_num_threads(1)
