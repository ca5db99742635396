"""A DNS server of one name, whose address can be changed: gRPC asks it by the target dns://HOST:PORT/NAME."""

from __future__ import annotations

import socket
import struct
import threading

_A = 1


class NameServer:
    """Says of every name that it is at `address`, for no longer than now."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.questions = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Answers no more; a question that is already there may still have its answer."""
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                question, sender = self._socket.recvfrom(4096)
                self._socket.sendto(self._answer(question), sender)
            except OSError:
                return  # closed

    def _answer(self, question: bytes) -> bytes:
        end = question.index(b"\0", 12) + 5  # of the name, its type and its class
        self.questions += 1
        (kind,) = struct.unpack_from(">H", question, end - 4)
        answers = b""
        if kind == _A:
            # The name is that at offset 12; class IN, no time to live, four bytes.
            answers = struct.pack(">HHHIH", 0xC00C, _A, 1, 0, 4) + socket.inet_aton(self.address)
        head = question[:2] + struct.pack(">HHHHH", 0x8580, 1, 1 if answers else 0, 0, 0)
        return head + question[12:end] + answers
