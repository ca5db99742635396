"""Examples as a scipy CSR matrix; dense as numpy_way.py."""

import numpy_way
from scipy.sparse import csr_matrix


class Way(numpy_way.Way):
    """See measure.py."""

    def matrix(self, indices, values, dense_shape):
        return csr_matrix((values, tuple(indices.T)), shape=dense_shape)

    def product(self, examples, rows):
        return examples @ rows

    def product_with(self, examples, errors):
        return examples.T @ errors
