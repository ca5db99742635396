"""Named arrays and settings as bytes: a payload that an owner makes with `pack` and a worker reads with `unpack`.

The bytes are numpy's own form of several arrays, an uncompressed .npz, with one more member for the settings, JSON. Nothing in
it is executed: numpy reads it without pickles.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparseagg import _arguments
from sparseagg.convert import flatten
from sparseagg.errors import InvalidArgumentError

_SETTINGS = "settings.json"
_ARRAY = ".npy"
_KINDS = "biuf"  # truth values, integers, floating point


@dataclass(frozen=True, eq=False)
class Payload:
    """What `unpack` reads.

    arrays: by the names of `sparseagg.flatten`.
    settings: what JSON can say.
    """

    arrays: dict[str, np.ndarray[Any, Any]]
    settings: dict[str, Any]


def pack(arrays: Any = None, settings: Mapping[str, Any] | None = None) -> bytes:
    """Returns arrays and settings as the payload of tasks, which the server limits to 1 MiB.

    arrays: nested mappings and lists of arrays, as a model is; None: none.
    settings: names and values that JSON can say: hyperparameters, the name of a round from whose result workers read a model
        that is too large for a payload.

    Raises InvalidArgumentError for what is no array of numbers, and for settings that are no JSON.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, value in ({} if arrays is None else flatten(arrays)).items():
            with _arguments.refusing(f'array "{name}"'):
                array = np.asarray(value)
                if array.dtype.kind not in _KINDS:
                    raise InvalidArgumentError(f"its type {array.dtype} is none of numbers")
                with archive.open(name + _ARRAY, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        with _arguments.refusing("settings"):
            archive.writestr(_SETTINGS, json.dumps(dict(settings or {}), allow_nan=False))
    return buffer.getvalue()


def unpack(payload: bytes) -> Payload:
    """Returns what `pack` made a payload of.

    payload: of a task.

    Raises InvalidArgumentError for other bytes.
    """
    with _arguments.refusing("the payload is not one of sparseagg.worker.pack"):
        with zipfile.ZipFile(io.BytesIO(payload)) as archive:
            _check_is_stored(archive)
            names = [name for name in archive.namelist() if name.endswith(_ARRAY)]
            arrays = {name[: -len(_ARRAY)]: _array(archive, name) for name in names}
            settings = json.loads(archive.read(_SETTINGS))
        if not isinstance(settings, dict):
            raise InvalidArgumentError(f"settings is a {type(settings).__name__}, not a mapping")
    return Payload(arrays, settings)


def _check_is_stored(archive: zipfile.ZipFile) -> None:
    """Refuses compressed members, which could be of any size."""
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED:
            raise InvalidArgumentError(f"{member.filename} is compressed")


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray[Any, Any]:
    with archive.open(name) as member:
        array: np.ndarray[Any, Any] = np.lib.format.read_array(member, allow_pickle=False)
    return array
