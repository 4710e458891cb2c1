"""Whether the parameters and buffers of a model hold values that can be measured."""

from torch import Tensor, nn, strided
from torch.nn.parameter import is_lazy

from bathyscope.core.errors import UsageError


def check_values(model: nn.Module) -> None:
    """Raise where a parameter or buffer has no values, or none that a graph can be built on.

    Raises:
        UsageError: a tensor that is lazy, on the meta device or made in inference mode, or a sparse
            parameter; a buffer may be sparse, as the edges of a graph are.
    """
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if why := _trouble(tensor):
            raise UsageError(f"{name} of the model {why}.")
    if not any(p.numel() for p in model.parameters()):
        raise UsageError(
            f"All parameters of the model ({type(model).__name__}) are empty; there is nothing to "
            "measure."
        )


def _trouble(tensor: Tensor) -> str:
    if is_lazy(tensor):
        return "has no values yet (a lazy layer); run one batch through the model first"
    if tensor.is_meta:
        return "has no values (it is on the meta device); move it with to_empty() and load weights"
    if tensor.is_inference():
        return (
            "was made in inference mode, where nothing can be differentiated; make the model outside "
            "of torch.inference_mode(), or clone its parameters there"
        )
    if tensor.layout is not strided and isinstance(tensor, nn.Parameter):
        return f"is sparse ({tensor.layout}); make it dense with to_dense()"
    return ""
