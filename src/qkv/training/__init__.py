"""The loop, schedules, averaging, checkpoints; and `train`, a whole run of any task."""

from qkv.training.run import Trained, train
from qkv.training.schedules import SCHEDULES
from qkv.training.settings import Settings, TrainingConfig
