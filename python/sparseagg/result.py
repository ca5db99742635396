"""`Result`: what an aggregation gives, and how it is received."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingABC
from typing import Any

from sparseagg._proto import aggregation_pb2
from sparseagg._transport import StreamCall
from sparseagg._wire import Answer
from sparseagg.errors import InvalidArgumentError, SparseAggError
from sparseagg.records import Manifest, manifest_from_proto
from sparseagg.tensors import ResultTensor

# Unread answers of a result being received: 16 chunks of 1 MiB keep the connection busy.
ANSWERS_MAX = 16

_LAYOUTS = {
    "sparse": aggregation_pb2.RESULT_LAYOUT_SPARSE,
    "dense": aggregation_pb2.RESULT_LAYOUT_DENSE,
}


class Result(MappingABC):  # type: ignore[type-arg]  # a Mapping[str, ResultTensor]
    """An aggregate: a mapping from the tensors' names to SparseTensor or numpy array.

    manifest: what it was computed from.
    """

    def __init__(self, tensors: dict[str, ResultTensor], manifest: Manifest) -> None:
        self._tensors = tensors
        self.manifest = manifest

    def __getitem__(self, name: str) -> ResultTensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Result({self._tensors!r}, contributors={self.manifest.contributors})"


def layout_number(layout: str) -> Any:
    """The protocol's number for "sparse" or "dense"."""
    if layout not in _LAYOUTS:
        raise InvalidArgumentError(f'no layout "{layout}", only "sparse" and "dense"')
    return _LAYOUTS[layout]


def receive_result(stream: StreamCall, layout: str, selected: Sequence[str] = ()) -> Result:
    """Reads the answer of GetAggregate or Reduce: one header, then chunks.

    selected: names of the tensors of which only some rows were asked for.
    """
    answer: Answer | None = None
    while True:
        message = stream.receive()
        if message is None:
            break
        if message.WhichOneof("body") == "header":
            answer = Answer(message.header)
        elif answer is not None:
            answer.add(message.chunk)
    if answer is None:
        raise SparseAggError("the server ended the answer before its header", reason="TRUNCATED")
    tensors = answer.tensors(dense=layout == "dense", selected=selected)
    return Result(tensors, manifest_from_proto(answer.header.manifest))
