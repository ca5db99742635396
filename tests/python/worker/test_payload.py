"""`pack` and `unpack`: arrays and settings as the payload of a task."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from sparseagg import InvalidArgumentError
from sparseagg.worker import pack, unpack


def test_arrays_and_settings_come_back():
    model = {
        "emb": {"weight": np.float32([[1, 2], [3, 4]])},
        "layers": [np.arange(3), np.array(True)],
        "file": np.zeros((0, 4), np.float16),
    }
    settings = {"learning_rate": 0.1, "model": "rounds/m", "steps": [1, 2], "none": None}
    payload = unpack(pack(model, settings))
    assert payload.settings == settings
    arrays = payload.arrays
    assert list(arrays) == ["emb/weight", "layers/0", "layers/1", "file"]
    np.testing.assert_array_equal(arrays["emb/weight"], model["emb"]["weight"])
    assert [array.dtype.name for array in arrays.values()] == [
        "float32", "int64", "bool", "float16"
    ]  # fmt: skip
    assert arrays["file"].shape == (0, 4) and arrays["layers/1"].shape == ()


def test_settings_alone_are_small():
    payload = pack(settings={"seed": 7})
    assert unpack(payload).settings == {"seed": 7}
    assert unpack(payload).arrays == {}
    assert len(payload) < 200


@pytest.mark.parametrize(
    ("arrays", "settings", "why"),
    [
        ({"a": ["x", "y"]}, None, 'array "a'),
        ({"a": np.array([None])}, None, 'array "a"'),
        (None, {"a": b"bytes"}, "settings"),
        (None, {"a": float("nan")}, "settings"),
        (None, [1], "settings"),
    ],
)
def test_what_is_no_payload_is_refused(arrays, settings, why):
    with pytest.raises(InvalidArgumentError, match=why):
        pack(arrays, settings)


def archive(compression=zipfile.ZIP_STORED, **members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as made:
        for name, content in members.items():
            made.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def pickled():
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([print], object))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"hyperparameters", id="no-archive"),
        pytest.param(pack({"a": np.ones(100)})[:300], id="cut"),
        pytest.param(archive(), id="empty"),
        pytest.param(archive(settings_json="7"), id="number"),
        pytest.param(archive(settings_json="{"), id="no-json"),
        pytest.param(archive(settings_json="{}", a_npy=b"\x93NUMPY"), id="no-array"),
        pytest.param(archive(settings_json="{}", a_npy=pickled()), id="pickled"),
        pytest.param(
            archive(zipfile.ZIP_DEFLATED, settings_json="{}", a_npy=bytes(10_000)), id="deflated"
        ),
    ],
)
def test_other_bytes_are_refused(payload):
    with pytest.raises(InvalidArgumentError, match="payload|settings"):
        unpack(payload)
