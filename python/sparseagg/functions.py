"""The stateless operators: one call on a list of tensors or of models, nothing stored."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, Literal, SupportsFloat, overload

import numpy as np

from sparseagg import _arguments, _local
from sparseagg._encode.encodings import EncodeOptions, ValuesChoice
from sparseagg._requests import may_fill_arrays_again, read_for_reduce
from sparseagg.client import Client
from sparseagg.convert import (
    ReadTensors,
    as_tensor,
    as_tensor_of,
    check_is_list,
    flatten,
    is_without_entries,
    is_without_values,
    specs_of,
    unflatten_owned,
)
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError, UnavailableError
from sparseagg.result import Result, layout_number
from sparseagg.tensors import AnyTensor, SparseTensor, TensorSpec


@overload
def sparse_sum(
    tensors: Iterable[SparseTensor | tuple[Any, Any, Any]],
    op: str = "sum",
    weights: Iterable[SupportsFloat] | None = None,
    *,
    target: str | None = None,
    client: Client | None = None,
    layout: Literal["sparse"] = "sparse",
    value_type: str | None = None,
    integer_overflow: str = "checked",
    encoding: str = "auto",
    values: ValuesChoice = "auto",
) -> SparseTensor: ...


@overload
def sparse_sum(
    tensors: Iterable[np.ndarray[Any, Any]],
    op: str = "sum",
    weights: Iterable[SupportsFloat] | None = None,
    *,
    target: str | None = None,
    client: Client | None = None,
    layout: str = "sparse",
    value_type: str | None = None,
    integer_overflow: str = "checked",
    encoding: str = "auto",
    values: ValuesChoice = "auto",
) -> np.ndarray[Any, Any]: ...


@overload
def sparse_sum(
    tensors: Iterable[Any],
    op: str = "sum",
    weights: Iterable[SupportsFloat] | None = None,
    *,
    target: str | None = None,
    client: Client | None = None,
    layout: str = "sparse",
    value_type: str | None = None,
    integer_overflow: str = "checked",
    encoding: str = "auto",
    values: ValuesChoice = "auto",
) -> Any: ...


def sparse_sum(
    tensors: Iterable[Any],
    op: str = "sum",
    weights: Iterable[SupportsFloat] | None = None,
    *,
    target: str | None = None,
    client: Client | None = None,
    layout: str = "sparse",
    value_type: str | None = None,
    integer_overflow: str = "checked",
    encoding: str = "auto",
    values: ValuesChoice = "auto",
) -> Any:
    """The exact aggregate of equally shaped tensors, or of models of them, rounded once.

    tensors: at least one; each a tensor as `as_tensor` takes it (SparseTensor, a tuple (indices, values, dense_shape), a
        sparse tensor of scipy, torch, TensorFlow or JAX, or a dense array), or nested mappings and lists of these. All of
        the same nesting, shapes, sparse_dim and value types. A generator may fill the same arrays for each; the first of its
        models that has entries tells the types of all tensors.
    op: "sum", "weighted_mean" (absent counts as zero), "mean_of_contributors" (only those that hold the index),
        "count", "min" or "max".
    weights: one for each tensor; 1 each when left out.
    target, client: the server; give a `client` where one is open already. Without both, the sum is made in this process,
        unless SPARSEAGG_SERVER names a server or the package has no native library; target="in-process" insists.
    layout: "sparse" gives the kind and nesting of the first tensor (a tuple comes back as a SparseTensor, which unpacks
        as one), "dense" arrays of the full shape, of the same package.
    value_type: "bf16" where the values are uint16 bit patterns; otherwise taken from the values.
    integer_overflow: "checked" (OutOfRangeError names the index) or "modular" (wraps).
    encoding, values: what the tensors travel as, as in `Round.submit`.

    The order of the tensors changes no bit of the result. Equal indices within one tensor are summed first.

        >>> a = ([0, 5], np.float32([1, 1]), [10])
        >>> b = ([5, 9], np.float32([1, 1]), [10])
        >>> total = sparse_sum([a, b])
        >>> total.indices.ravel(), total.values
        (array([0, 5, 9]), array([1., 2., 1.], dtype=float32))
    """
    check_is_list("tensors", tensors)
    given = _arguments.items("tensors", tensors)
    first = _up_to_an_entry(given)
    if not first:
        raise InvalidArgumentError("sparse_sum of no tensors: the shape of the result is unknown")
    # The server refuses updates that differ from it.
    examples = tensors if isinstance(tensors, Sequence) else first
    specs = specs_of(_typed_example(examples, value_type), op, integer_overflow=integer_overflow)
    by_name = {spec.name: spec for spec in specs}

    def read(position: int, tree: Any) -> ReadTensors:
        update = ReadTensors()
        for name, tensor in flatten(tree).items():
            with _arguments.refusing(f'update {position}: tensor "{name}"', InvalidUpdateError):
                if name in by_name or not is_without_values(tensor):
                    update[name] = as_tensor_of(by_name.get(name), tensor, value_type)
        return update

    updates: Iterable[ReadTensors] = map(read, itertools.count(), itertools.chain(first, given))
    if not may_fill_arrays_again(tensors):
        updates = list(updates)
    result = reduce(
        specs,
        updates,
        weights=weights,
        target=target,
        client=client,
        layout=layout,
        encoding=encoding,
        values=values,
    )
    return unflatten_owned(first[0], result)


def reduce(
    tensors: Iterable[TensorSpec],
    updates: Iterable[Any],
    *,
    weights: Iterable[SupportsFloat] | None = None,
    target: str | None = None,
    client: Client | None = None,
    layout: str = "sparse",
    encoding: str = "auto",
    values: ValuesChoice = "auto",
) -> Result:
    """`Client.reduce`, in this process or on a server. In this process the manifest has no digests.

    tensors, updates, weights, layout, encoding, values: as in `Client.reduce`.
    target, client: as in `sparse_sum`.
    """
    if client is not None or not _local.is_wanted(target):
        return _reduce_on_server(
            client,
            target,
            lambda connection: connection.reduce(
                tensors, updates, weights=weights, layout=layout, encoding=encoding, values=values
            ),
        )
    options = EncodeOptions(encoding, values)
    specs = tuple(_arguments.items("tensors", tensors))
    layout_number(layout)  # refuses another one before the work
    reduction = _local.LocalReduction(specs, options, _local.at_once(updates))
    read = read_for_reduce(specs, updates, weights, options)
    if may_fill_arrays_again(updates):
        for update in read:
            reduction.add(update)
    else:
        reduction.add_all(read)
    return reduction.result(layout)


def _reduce_on_server(
    client: Client | None, target: str | None, call: Callable[[Client], Result]
) -> Result:
    if client is not None:
        return call(client)
    with Client(target) as own:
        try:
            return call(own)
        except UnavailableError as bad:
            hint = _local.why_a_server_is_needed(target)
            if not hint:
                raise
            raise UnavailableError(
                f"{bad.message}; {hint}", code=bad.code, reason=bad.reason, metadata=bad.metadata
            ) from bad


def _up_to_an_entry(trees: Iterator[Any]) -> list[Any]:
    """Returns the first of `trees`, up to the first that has entries: those before it tell neither type nor width, and have
    no arrays that a generator could fill again."""
    taken = []
    for tree in trees:
        taken.append(tree)
        with _arguments.refusing(f"update {len(taken) - 1}", InvalidUpdateError):
            tensors = flatten(tree).values()
            if not all(is_without_entries(one) or is_without_values(one) for one in tensors):
                break
    return taken


def _typed_example(trees: Iterable[Any], value_type: str | None) -> dict[str, AnyTensor]:
    """The tensors of the first of `trees`; in the place of one without entries, which tells neither type nor width, the
    first that has some."""
    found: dict[str, AnyTensor] = {}
    untyped: set[str] = set()
    for position, tree in enumerate(trees):
        for name, tensor in flatten(tree).items():
            with _arguments.refusing(f'update {position}: tensor "{name}"', InvalidUpdateError):
                if is_without_values(tensor) or (position and name not in untyped):
                    continue
                found[name] = as_tensor(tensor, value_type)
                (untyped.add if is_without_entries(tensor) else untyped.discard)(name)
        if not untyped:
            break
    return found


def sparse_weighted_mean(
    tensors: Iterable[Any], weights: Iterable[SupportsFloat] | None = None, **options: Any
) -> Any:
    """`sparse_sum(op="weighted_mean")`: sum of weight times value, divided by the weight of all; absent counts as zero.

    tensors, weights, options: as in `sparse_sum`.
    """
    return sparse_sum(tensors, "weighted_mean", weights, **options)


def sparse_mean_of_contributors(
    tensors: Iterable[Any], weights: Iterable[SupportsFloat] | None = None, **options: Any
) -> Any:
    """`sparse_sum(op="mean_of_contributors")`: each index divided by the weight of those that hold it.

    tensors, weights, options: as in `sparse_sum`.
    """
    return sparse_sum(tensors, "mean_of_contributors", weights, **options)


def sparse_count(tensors: Iterable[Any], **options: Any) -> Any:
    """`sparse_sum(op="count")`: how many of the tensors hold each index.

    tensors, options: as in `sparse_sum`.
    """
    return sparse_sum(tensors, "count", **options)


def sparse_min(tensors: Iterable[Any], **options: Any) -> Any:
    """`sparse_sum(op="min")`: the smallest value of those that hold the index.

    tensors, options: as in `sparse_sum`.
    """
    return sparse_sum(tensors, "min", **options)


def sparse_max(tensors: Iterable[Any], **options: Any) -> Any:
    """`sparse_sum(op="max")`: the largest value of those that hold the index.

    tensors, options: as in `sparse_sum`.
    """
    return sparse_sum(tensors, "max", **options)
