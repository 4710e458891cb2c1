"""The tasks by name."""

from tools.real_trainings.tasks import generated, images, sequences
from tools.real_trainings.tasks.task import Task

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        images.CIFAR,
        images.FASHION,
        images.MNIST,
        sequences.DOCUMENTATION,
        sequences.GRAMMAR,
        sequences.TOKENS,
        sequences.TAGGING,
        sequences.ADDING,
        generated.FRIEDMAN,
        generated.DIABETES,
        images.AUTOENCODER,
        images.VAE,
        images.DENOISER,
        images.CONTRAST,
        generated.MULTI_LABEL,
        generated.SEGMENTATION,
        generated.GRAPH,
        generated.BANDIT,
    )
}
