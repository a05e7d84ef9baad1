"""For all tests: one thread. Test models are tiny, and two threads that wait for each other are slower than one."""

import signal

import torch

# A runner in the background may have told its children to ignore Ctrl-C; ours must hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
