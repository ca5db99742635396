"""Partial aggregates of more entries than one server sums in a tensor, 2^38. These are too many to send in a test, so their
numbers are rewritten."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sparseagg import InvalidArgumentError
from support import partial_format
from support.trees import SPECS, bits, update, who

MANY = 2**40


def with_entries(data: bytes, entries: int) -> bytes:
    """The same sums, of so many entries in each tensor."""
    partial = partial_format.read(data)
    for tensor in partial.tensors:
        assert 0 < tensor.entries < 1000
        tensor.entries = entries
    return partial_format.write(partial)


@pytest.mark.parametrize("entries", [2**38 - 1, 2**38, MANY])
def test_a_round_of_more_entries_than_one_server_sums_is_exact(client, entries):
    root, one = client.create_round(SPECS), client.create_round(SPECS)
    for number in range(2):
        leaf = client.create_round(SPECS, publish_partial=True)
        for seed in (number, number + 2):
            for round in (one, leaf):
                round.submit(update(seed), **who(seed))
        leaf.seal()
        root.submit_partial(with_entries(leaf.partial(30), entries), node=f"leaf-{number}")
    for round in (one, root):  # a plain update on top
        round.submit(update(4), **who(4))
        round.seal()
    assert bits(root.result(timeout=60)) == bits(one.result(timeout=60))
    received = [status.nnz_received for status in root.info().tensor_status]
    assert [2 * entries < count < 2 * entries + 1000 for count in received] == [True] * len(SPECS)


def test_a_count_that_the_contributors_cannot_have_is_refused(client):
    root = client.create_round(SPECS)
    leaf = client.create_round(SPECS, publish_partial=True)
    leaf.submit(update(0), **who(0))
    leaf.seal()
    partial = partial_format.read(leaf.partial(30))
    counted = partial.tensors[-1]
    counted.rows[min(counted.rows)] = [Fraction(MANY)]
    with pytest.raises(InvalidArgumentError, match="has a count at row .* that its") as caught:
        root.submit_partial(partial_format.write(partial), node="leaf")
    assert caught.value.reason == "INVALID_PARTIAL"
    assert root.info().contributors == 0
