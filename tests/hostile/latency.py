"""A well-behaved client: submits updates one after the other and prints how long each receipt took.

usage: latency.py TARGET ROUND PREFIX SECONDS
"""

import json
import sys
import time

import http2
import uploads
from _proto import types_pb2 as types

ROWS = 10_000
ENTRIES = 4_000


def main() -> None:
    target, round_name, prefix, seconds = sys.argv[1:]
    data = uploads.payload(ENTRIES)
    connection = http2.Connection(target)
    taken = []
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        request = uploads.whole(round_name, f"{prefix}-{len(taken)}", ROWS, ENTRIES, data)
        start = time.monotonic()
        (answer,) = connection.call("SubmitUpdate", [request])
        taken.append(time.monotonic() - start)
        assert types.Receipt.FromString(answer).sequence > 0
    taken.sort()
    result = {"updates": len(taken)}
    for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
        result[name] = round(1000 * taken[int(share * (len(taken) - 1))], 3)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
