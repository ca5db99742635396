"""A well-behaved client: submits updates to the rounds in turn, one after the other, and prints how long the receipts
took.

usage: latency.py TARGET PREFIX SECONDS ROUND...
"""

import json
import sys
import time

import http2
import uploads
from _proto import types_pb2 as types

ROWS = 10_000
ENTRIES = 4_000


def percentiles(taken: list[float]) -> dict:
    taken.sort()
    result = {"updates": len(taken)}
    for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
        result[name] = round(1000 * taken[int(share * (len(taken) - 1))], 3)
    return result


def main() -> None:
    target, prefix, seconds, *rounds = sys.argv[1:]
    data = uploads.payload(ENTRIES)
    connection = http2.Connection(target)
    taken: dict[str, list[float]] = {name: [] for name in rounds}
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for name, times in taken.items():
            request = uploads.whole(name, f"{prefix}-{len(times)}", ROWS, ENTRIES, data)
            start = time.monotonic()
            (answer,) = connection.call("SubmitUpdate", [request])
            times.append(time.monotonic() - start)
            assert types.Receipt.FromString(answer).sequence > 0
    print(json.dumps({name: percentiles(times) for name, times in taken.items()}))


if __name__ == "__main__":
    main()
