import pytest
import torch

from bathyscope.linalg.norms import gram_matrix


def unfolded(tensor, mode):
    return tensor.movedim(mode, 0).reshape(tensor.shape[mode], -1)


@pytest.mark.parametrize(
    "shape",
    [(7,), (5, 9), (9, 5), (4, 3, 6), (4, 30, 5), (2, 3, 4, 5), (6, 2, 40, 3), (50, 2, 1, 3)],
)
def test_eigenvalues_are_those_of_the_explicit_unfolding_in_every_mode(shape):
    tensor = torch.randn(shape, dtype=torch.float64)
    for mode in range(len(shape)):
        matrix = unfolded(tensor, mode)
        smaller = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        torch.testing.assert_close(
            gram_matrix(tensor, mode), smaller @ smaller.T, rtol=1e-12, atol=1e-12
        )


def test_wider_dtype_sums_in_pieces_to_the_exact_matrix():
    tensor = torch.randn(40, 8, 60, 70) + 100  # larger than a piece, with a mean that cancels badly
    for mode in range(4):
        matrix = unfolded(tensor.double(), mode)
        wide = gram_matrix(tensor, mode, dtype=torch.float64)
        torch.testing.assert_close(wide, matrix @ matrix.T, rtol=1e-12, atol=0)


def test_strided_and_channels_last_tensors_are_read_in_logical_order():
    tensor = torch.randn(3, 4, 5, 6, dtype=torch.float64)
    for view in (
        tensor.to(memory_format=torch.channels_last),
        tensor[:, ::2],
        tensor.transpose(1, 3),
    ):
        for mode in range(4):
            matrix = unfolded(view, mode)
            torch.testing.assert_close(gram_matrix(view, mode), matrix @ matrix.T)
