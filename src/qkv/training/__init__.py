"""The loop, schedules, averaging, checkpoints; and `train`, a whole run."""

from qkv.training.run import Trained, train
from qkv.training.schedules import SCHEDULES
from qkv.training.settings import DataConfig, Settings, TrainingConfig

__all__ = ["SCHEDULES", "DataConfig", "Settings", "Trained", "TrainingConfig", "train"]
