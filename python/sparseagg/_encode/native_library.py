"""The native library, where the package has it."""

from __future__ import annotations

import functools
from types import ModuleType


@functools.lru_cache(maxsize=1)
def native_module() -> ModuleType | ImportError:
    """Returns `sparseagg._native`, or why it cannot be imported."""
    try:
        from sparseagg import _native
    except ImportError as absent:
        return absent
    return _native
