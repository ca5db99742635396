"""Means, as all adapters compute them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sparseagg.errors import InvalidUpdateError
from sparseagg.records import Manifest


def averageable(value: Any) -> Any:
    """Returns `value` as a mean is taken of it: whole numbers, of numpy or of torch, in float64, which is what the
    frameworks do."""
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return value.astype(np.float64)
    if is_of_torch(value) and not (value.is_floating_point() or value.is_complex()):
        return value.to(sys.modules["torch"].float64)
    return value


def check_weight(manifest: Manifest) -> None:
    """Raises InvalidUpdateError for a mean of what weighs nothing: its zeros (docs/numerics.md) would be taken for a model."""
    if not manifest.total_weight:
        raise InvalidUpdateError(
            f"the weights of {manifest.contributors} updates sum to 0, so they have no mean",
            reason="INVALID_WEIGHT",
        )


def is_of_torch(value: Any) -> bool:
    """Returns True for a tensor of torch, which is not imported for that."""
    torch = sys.modules.get("torch")  # a caller with one of its tensors has imported it
    return torch is not None and isinstance(value, torch.Tensor)
