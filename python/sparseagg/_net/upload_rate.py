"""How fast a client's updates travel, which is what `encoding="auto"` judges by."""

from __future__ import annotations

from sparseagg._net.address import Address, is_direct

# Bytes a second before anything is measured: of this machine; of 100 Mbit/s elsewhere.
_HERE, _ELSEWHERE = 1e9, 12.5e6
# Of fewer bytes the time says more of the server and of the way there and back.
_BYTES_MIN = 4 << 20


class UploadRate:
    """Bytes a second, guessed from the address, then the mean of the last upload and of those before. Thread-safe."""

    def __init__(self, address: Address) -> None:
        self.bytes_per_second = _HERE if is_direct(address) else _ELSEWHERE
        self._is_measured = False

    def record(self, size: int, seconds: float) -> None:
        """An upload of `size` bytes that nothing interrupted took `seconds`."""
        if size < _BYTES_MIN or seconds <= 0:
            return
        rate = size / seconds
        self.bytes_per_second = (self.bytes_per_second + rate) / 2 if self._is_measured else rate
        self._is_measured = True
