"""Examples as a scipy CSR matrix whose product is part of torch's graph; dense as torch_way.py."""

import scipy_way
import torch
import torch_way


class SparseProduct(torch.autograd.Function):
    """`examples @ rows` of a scipy matrix and a tensor, with the gradient of the rows."""

    @staticmethod
    def forward(context, examples, rows):
        context.examples = examples
        return torch.from_numpy(examples @ rows.detach().numpy())

    @staticmethod
    def backward(context, gradient):
        return None, torch.from_numpy(context.examples.T @ gradient.numpy())


class Way:
    """See measure.py."""

    def __init__(self, form):
        self._is_sparse = form == "sparse"
        way = (scipy_way if self._is_sparse else torch_way).Way(form)
        self.load, self.statistics, self.renumber = way.load, way.statistics, way.renumber
        self._dense_gradient = way.gradient

    def gradient(self, examples, labels, rows):
        if not self._is_sparse:
            return self._dense_gradient(examples, labels, rows)
        rows = torch.from_numpy(rows).requires_grad_()
        scores = SparseProduct.apply(examples, rows)
        torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels)).backward()
        return rows.grad.numpy()
