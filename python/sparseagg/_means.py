"""What the adapters do alike about means."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def averageable(value: Any) -> Any:
    """`value` as a mean is taken of it: whole numbers, of numpy or of torch, in float64, which is what the frameworks do."""
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return value.astype(np.float64)
    if is_of_torch(value) and not (value.is_floating_point() or value.is_complex()):
        return value.to(sys.modules["torch"].float64)
    return value


def is_of_torch(value: Any) -> bool:
    """True for a tensor of torch, which is not imported for that."""
    torch = sys.modules.get("torch")  # whoever has one of its tensors has imported it
    return torch is not None and isinstance(value, torch.Tensor)
