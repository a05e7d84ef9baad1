"""For all tests: one thread. Test models are tiny, and two threads that wait for each other are slower than one."""

import torch

torch.set_num_threads(1)
