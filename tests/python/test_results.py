"""What a `Result` gives, by name and in the kinds of an example."""

from __future__ import annotations

import numpy as np
import pytest
from sparseagg import InvalidArgumentError, SparseTensor, sparse_sum, specs_of


def sparse_examples():
    """Examples of the shape [3, 2], whose two dimensions are indexed where the kind leaves a choice."""
    parts = ([[1, 0]], np.float32([1]), [3, 2])
    examples = {
        "a triple": parts,
        "a sparse tensor": SparseTensor(*parts),
        "a dictionary": dict(zip(("indices", "values", "dense_shape"), parts)),
    }
    try:
        from scipy import sparse
    except ImportError:
        return examples
    return {**examples, "scipy": sparse.csr_matrix((3, 2), dtype=np.float32)}


@pytest.mark.parametrize("kind", sparse_examples())
def test_a_sparse_example_of_a_dense_result_is_refused(client, kind):
    example = {"layers": [sparse_examples()[kind]]}
    round = client.create_round(specs_of(example))
    round.submit(example, contributor="a")
    round.seal()
    with pytest.raises(
        InvalidArgumentError, match=r'"layers/0": .* dense.*sparse.*layout "sparse"'
    ):
        round.result("dense").like(example)
    assert round.result("dense").like({"layers": [np.zeros((3, 2))]})["layers"][0].shape == (3, 2)
    restored = round.result().like(example)["layers"][0]
    assert type(restored) is type(example["layers"][0]) or kind == "a triple"
    assert sparse_sum([example], client=client, layout="dense")["layers"][0].shape == (3, 2)
