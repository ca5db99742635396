"""The work of a TFF client as the function of a worker; users import it from sparseagg.tff."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow_federated as tff

from sparseagg._arguments import listed
from sparseagg._requests import Update
from sparseagg._tff_sums import Path, at, fields_of, is_sparse, leaves, structure_of
from sparseagg.errors import InvalidArgumentError
from sparseagg.tensors import SparseTensor
from sparseagg.worker._payload import pack, unpack
from sparseagg.worker._task import LeasedTask

_ROOT = "tensor"  # the name of a broadcast that is one tensor, as by `sparseagg.flatten`


def broadcast_payload(broadcast_type: Any, broadcast: Any) -> bytes:
    """Returns what is broadcast, of this type, as the payload of tasks for `client_worker`."""
    return pack({name: at(broadcast, path) for name, path in _names(broadcast_type).items()})


def _broadcast_of(task: LeasedTask) -> Mapping[str, Any]:
    return unpack(task.payload).arrays


def client_worker(
    client_work: Any,
    data: Callable[[LeasedTask], Any],
    broadcast: Callable[[LeasedTask], Any] = _broadcast_of,
) -> Callable[[LeasedTask], Update]:
    """Returns the function for `sparseagg.worker.run` that does a TFF client's work: an update for each task.

    client_work: a tff.tensorflow.computation (broadcast, data) -> <update, weight>; or, as for `SparseRound`, a
        tff.federated_computation (state@SERVER, data@CLIENTS) -> <update, weight>@CLIENTS, of which the client's part is
        taken. Sparse tensors of the update are structures <indices, values>; the round says their shapes.
    data: gives the client's data of a task, for example by `task.contributor`.
    broadcast: gives what the server broadcast: arrays by name (keys on the way to each, joined by "/"), or a value of the
        computation's type. When left out it is in the payload, of which `SparseRound.payload` makes one. A model beyond a
        payload's 1 MiB comes from somewhere else: `lambda task: task.client.round("model-7").result("dense")`.

        worker.run(client_worker(client_work, lambda task: dataset_of(task.contributor)), ["train"], "host:50061")
    """
    work = _client_part(client_work)
    broadcast_type = work.type_signature.parameter[0]
    result_type = work.type_signature.result
    if not isinstance(result_type, tff.types.StructType) or len(result_type) != 2:
        raise InvalidArgumentError(f"client_work gives {result_type}, not <update, weight>")
    tensors_of = dict(leaves(result_type[0]))

    def function(task: LeasedTask) -> Update:
        given = broadcast(task)
        if isinstance(given, Mapping):
            given = _structured(broadcast_type, given)
        update, weight = work(given, data(task))
        specs = task.round.specs
        tensors = {}
        for path, leaf in tensors_of.items():
            name, value = "/".join(path), at(update, path)
            if is_sparse(leaf) and name in specs:
                value = SparseTensor(value["indices"], value["values"], specs[name].dense_shape)
            tensors[name] = value
        return task.update(tensors, weight=float(weight))

    return function


def _client_part(client_work: Any) -> Any:
    """Returns the computation (broadcast, data) -> <update, weight> that each client does."""
    if not isinstance(client_work, tff.backends.mapreduce.BroadcastForm):
        if not isinstance(client_work.type_signature.result, tff.types.FederatedType):
            return client_work
        client_work = tff.backends.mapreduce.get_broadcast_form_for_computation(client_work)
    return client_work.client_processing


def _structured(broadcast_type: Any, given: Mapping[str, Any]) -> Any:
    """Returns arrays by name as a value of the type."""
    paths = _names(broadcast_type)
    missing = [name for name in paths if name not in given]
    if missing:
        raise InvalidArgumentError(
            f"the broadcast lacks {listed(missing)}; there are {listed(given)}"
        )
    return structure_of(broadcast_type, (), {path: given[name] for name, path in paths.items()})


def _paths(value_type: Any, path: Path = ()) -> Iterator[Path]:
    """Yields the way to every tensor of a type."""
    if not isinstance(value_type, tff.types.StructType):
        yield path
        return
    for number, (name, inner) in enumerate(fields_of(value_type)):
        yield from _paths(inner, (*path, name or str(number)))


def _names(broadcast_type: Any) -> dict[str, Path]:
    """Returns the way to each tensor by its name. TFF's forms have a tuple of broadcasts; that of one is left out of names, so
    that they are those of the computation from which the form was made."""
    paths = list(_paths(broadcast_type))
    is_tuple_of_one = (
        isinstance(broadcast_type, tff.types.StructType)
        and len(broadcast_type) == 1
        and fields_of(broadcast_type)[0][0] is None
    )
    return {"/".join(path[is_tuple_of_one:]) or _ROOT: path for path in paths}
