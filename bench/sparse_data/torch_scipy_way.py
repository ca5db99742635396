"""Examples as a torch CSR tensor, whose product scipy makes on the same memory; dense as torch_way.py."""

import torch
import torch_way
from scipy.sparse import csr_matrix


class SparseProduct(torch.autograd.Function):
    """`examples @ rows` of a CSR tensor, and its gradient with respect to the rows."""

    @staticmethod
    def forward(context, examples, rows):
        parts = examples.values(), examples.col_indices(), examples.crow_indices()
        context.matrix = csr_matrix(tuple(part.numpy() for part in parts), tuple(examples.shape))
        return torch.from_numpy(context.matrix @ rows.detach().numpy())

    @staticmethod
    def backward(context, gradient):
        return None, torch.from_numpy(context.matrix.T @ gradient.numpy())


class Way(torch_way.Way):
    """See measure.py."""

    def load(self, indices, values, dense_shape):
        examples = super().load(indices, values, dense_shape)
        return examples.to_sparse_csr() if self._is_sparse else examples

    def gradient(self, examples, labels, rows):
        if not self._is_sparse:
            return super().gradient(examples, labels, rows)
        rows = torch.from_numpy(rows).requires_grad_()
        scores = SparseProduct.apply(examples, rows)
        torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels)).backward()
        return rows.grad.numpy()
