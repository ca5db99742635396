"""Settings of the processor for floating point that another package may leave a thread with."""

from __future__ import annotations

import ctypes
import mmap
import platform
from contextlib import contextmanager

import pytest


@contextmanager
def flush_to_zero():
    """This thread's processor takes the smallest numbers for 0, as a package built with -ffast-math leaves it."""
    if platform.machine() != "x86_64":
        pytest.skip("sets the control register of x86")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes([0x0F, 0xAE, 0x17, 0xC3]))  # ldmxcsr [rdi]; ret
    code = ctypes.c_char.from_buffer(page)
    load = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.addressof(code))
    flushing, usual = ctypes.c_uint32(0x9FC0), ctypes.c_uint32(0x1F80)
    load(ctypes.addressof(flushing))
    try:
        yield
    finally:
        load(ctypes.addressof(usual))
