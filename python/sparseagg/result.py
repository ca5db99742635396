"""`Result`: what an aggregation gives, and how it is received."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sparseagg._encode.wire import Answer
from sparseagg._net.stream_call import StreamCall
from sparseagg._progress import Meter, Progress
from sparseagg._proto import aggregation_pb2
from sparseagg.convert import tensor_of, unflatten
from sparseagg.errors import InvalidArgumentError, SparseAggError
from sparseagg.records import Manifest, manifest_from_proto
from sparseagg.tensors import ResultTensor, SparseTensor

# Unread answers of a result being received: 16 chunks of 1 MiB keep the connection busy.
ANSWERS_MAX = 16

_LAYOUTS = {
    "sparse": aggregation_pb2.RESULT_LAYOUT_SPARSE,
    "dense": aggregation_pb2.RESULT_LAYOUT_DENSE,
}


class Result(Mapping[str, ResultTensor]):
    """An aggregate: a read-only mapping from the tensors' names to SparseTensor or numpy array.

    manifest: what it was computed from, a `Manifest`.

        for name, tensor in result.items():
            print(name, tensor)

    A sparse tensor has ascending, distinct indices. `result[name]` raises UnknownTensorError (a KeyError) for a name that
    it does not have.
    """

    def __init__(self, tensors: dict[str, ResultTensor], manifest: Manifest) -> None:
        self._tensors = tensors
        self.manifest = manifest

    # Any: a caller knows the kind of a tensor that it names, and would have to narrow a union each time. sparse() and
    # dense() are typed.
    def __getitem__(self, name: str) -> Any:
        return tensor_of(self._tensors, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def sparse(self, name: str) -> SparseTensor:
        """Returns one tensor, which has to be a sparse one.

        name: of the tensor. Raises InvalidArgumentError where it is dense, UnknownTensorError where there is none.
        """
        tensor = tensor_of(self._tensors, name)
        if not isinstance(tensor, SparseTensor):
            raise InvalidArgumentError(
                f'tensor "{name}" of the result is dense; take dense("{name}")'
            )
        return tensor

    def dense(self, name: str) -> np.ndarray[Any, Any]:
        """Returns one tensor as an array of the full shape; absent values are 0.

        name: of the tensor. Raises UnknownTensorError where there is none.
        """
        tensor = tensor_of(self._tensors, name)
        return tensor.to_dense() if isinstance(tensor, SparseTensor) else tensor

    def like(self, example: Any) -> Any:
        """Returns the tensors in the nesting of `example`, each in the kind that stands there: a torch sparse tensor
        where `example` has one, a dense array where it has a dense one. They are copies: changing one changes neither
        this result nor what a later call gives.

        example: a model, or an update; see `sparseagg.flatten` for the nesting.

        Raises UnknownTensorError (a KeyError) when `example` has a tensor that the result has not, and
        InvalidArgumentError for one of another shape, as the result has when only some rows were asked for, and for a
        sparse one where the result is dense: a result in the layout "sparse" fits both.
        """
        return unflatten(example, self._tensors)

    def __repr__(self) -> str:
        return f"Result({self._tensors!r}, contributors={self.manifest.contributors})"


def layout_number(layout: str) -> Any:
    """Returns the protocol's number for "sparse" or "dense"."""
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise InvalidArgumentError(f'no layout "{layout}", only "sparse" and "dense"')
    return _LAYOUTS[layout]


class ResultReader:
    """Puts an answer of GetAggregate or Reduce together: one header, then chunks.

    selected: names of the tensors of which only some rows were asked for.
    """

    def __init__(
        self, layout: str, selected: Sequence[str] = (), progress: Progress = False
    ) -> None:
        self._layout = layout
        self._selected = selected
        self._progress = progress
        self._meter: Meter | None = None
        self._answer: Answer | None = None

    def add(self, message: Any) -> None:
        """Takes the next message of the stream."""
        if message.WhichOneof("body") == "header":
            self._answer = Answer(message.header)
            self._meter = Meter(self._progress, self._answer.size, "receiving")
        elif self._answer is not None and self._meter is not None:
            self._answer.add(message.chunk)
            self._meter.advance(len(message.chunk.data))

    def finish(self) -> Result:
        """Returns the result, at the end of the stream. Raises SparseAggError when something is missing."""
        if self._answer is None or self._meter is None:
            raise SparseAggError(
                "the server ended the answer before its header", reason="TRUNCATED"
            )
        self._meter.close()
        tensors = self._answer.tensors(dense=self._layout == "dense", selected=self._selected)
        return Result(tensors, manifest_from_proto(self._answer.header.manifest))


def receive_result(stream: StreamCall, reader: ResultReader) -> Result:
    """Reads a stream to its end."""
    while True:
        message = stream.receive()
        if message is None:
            return reader.finish()
        reader.add(message)
