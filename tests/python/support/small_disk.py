"""A small file system, as a disk that can be full: a tmpfs, which only root may mount."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class SmallDisk:
    """A mounted tmpfs. `fill` takes all of its space, and `make_room` gives it back."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder = folder
        folder.mkdir()
        options = f"size={size_bytes},mode=0700"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
        subprocess.run(command, check=True, capture_output=True, text=True)
        self._filler = folder / "filler"

    @property
    def free_bytes(self) -> int:
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize

    def fill(self) -> None:
        """What a server frees meanwhile is taken, too, when this is called again."""
        with self._filler.open("ab") as file:
            while self.free_bytes:
                os.posix_fallocate(file.fileno(), file.tell(), self.free_bytes)
                file.seek(0, os.SEEK_END)

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)

    def resize(self, size_bytes: int) -> None:
        command = ["mount", "-o", f"remount,size={size_bytes}", self.folder]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True, capture_output=True)
