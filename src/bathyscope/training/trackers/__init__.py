"""Other people's trackers and loops: TensorBoard, Lightning, Hugging Face, and a loop of your own."""

from bathyscope.training.trackers.huggingface import huggingface_callback
from bathyscope.training.trackers.lightning import lightning_callback
from bathyscope.training.trackers.plain import Logger, log_run
from bathyscope.training.trackers.tensorboard import TensorBoard

__all__ = ["Logger", "TensorBoard", "huggingface_callback", "lightning_callback", "log_run"]
