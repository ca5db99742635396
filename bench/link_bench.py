"""Measures what `encoding="auto"` takes beside `coo.raw` and `coo.packed`: on loopback, and on a link of 100 Mbit/s.

    PYTHONPATH=FOLDER python3 bench/link_bench.py --server PROGRAM --json FILE [--quick] [--links loopback,100mbit] [--only TEXT[=N]]...

FOLDER holds the package with its native library. The link is a network namespace whose only way to the server is limited by
`tc`; this needs root and iproute2. Each submit is made by a process of its own, from arrays in memory to the receipt; the
encodings run in turns. Memory is the peak resident set beyond the one before the submit. Needs python3-grpcio, python3-numpy
and python3-protobuf.
"""

import argparse
import contextlib
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from sparseagg import Client, SparseTensor, specs_of

ENCODINGS = ["coo.raw", "coo.packed", "auto"]
NAMESPACE, OUTSIDE, INSIDE = "sparseagg-bench", "10.213.77.1", "10.213.77.2"
MEGABYTE = 1 << 20


def rows_of_64(scale):
    """f32, indices in order: 503 MB."""
    rows = np.arange(0, 3 * (1_900_000 // scale), 3)
    values = np.random.default_rng(1).standard_normal((len(rows), 64), dtype=np.float32)
    return SparseTensor(rows, values, [int(rows[-1]) + 1, 64])


def dense(scale):
    """f64: 477 MB."""
    return np.random.default_rng(2).normal(size=62_500_000 // scale)


def unsorted(scale):
    """Scalars: 469 MB with indices of 64 bits."""
    random = np.random.default_rng(3)
    rows = np.cumsum(random.integers(1, 4, 41_000_000 // scale))
    random.shuffle(rows)
    values = random.standard_normal(len(rows), dtype=np.float32)
    return SparseTensor(rows, values, [int(rows.max()) + 1])


def in_order(scale):
    """The same, sorted."""
    random = np.random.default_rng(4)
    rows = np.cumsum(random.integers(1, 4, 41_000_000 // scale))
    values = random.standard_normal(len(rows), dtype=np.float32)
    return SparseTensor(rows, values, [int(rows[-1]) + 1])


def whole_numbers(scale):
    """f32 that bf16 holds: 477 MB."""
    return np.random.default_rng(5).integers(-100, 100, 125_000_000 // scale).astype(np.float32)


UPDATES = {
    "f32 rows of 64": rows_of_64,
    "dense f64": dense,
    "unsorted f32 scalars": unsorted,
    "f32 scalars in order": in_order,
    "dense f32 of whole numbers": whole_numbers,
}


def resident(key):
    """VmRSS or VmHWM in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return 1024 * int(line.split()[1])
    raise ValueError(key)


def submit_once(target, name, encoding, scale):
    """What one submit takes, in this process, which must be a fresh one."""
    update = {"t": UPDATES[name](scale)}
    with Client(target, timeout=600) as client:
        round = client.create_round(specs_of(update))
        pathlib.Path("/proc/self/clear_refs").write_text(
            "5"
        )  # the peak becomes what is resident now
        before = resident("VmRSS:")
        usage = resource.getrusage(resource.RUSAGE_SELF)
        begin = time.monotonic()
        receipt = round.submit(update, contributor="a", encoding=encoding)
        seconds = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_SELF)
        peak = resident("VmHWM:") - before
        round.abort()
        round.delete()
    taken = receipt.encodings["t"]
    return {
        "seconds": seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime,
        "extra_mb": peak / MEGABYTE,
        "sent_mb": taken.nbytes / MEGABYTE,
        "taken": f"{taken.encoding} {taken.values_encoding}",
    }


def run(*command):
    subprocess.run(command, check=True)


@contextlib.contextmanager
def namespace():
    """A namespace that reaches OUTSIDE over a link of 100 Mbit/s, in both directions."""
    limit = ["tbf", "rate", "100mbit", "burst", "64kb", "latency", "50ms"]
    inside = ["ip", "netns", "exec", NAMESPACE]
    run("ip", "netns", "add", NAMESPACE)
    try:
        run(
            "ip",
            "link",
            "add",
            "sagg-out",
            "type",
            "veth",
            "peer",
            "name",
            "sagg-in",
            "netns",
            NAMESPACE,
        )
        run("ip", "address", "add", f"{OUTSIDE}/30", "dev", "sagg-out")
        run("ip", "link", "set", "sagg-out", "up")
        run(*inside, "ip", "address", "add", f"{INSIDE}/30", "dev", "sagg-in")
        run(*inside, "ip", "link", "set", "sagg-in", "up")
        run("tc", "qdisc", "add", "dev", "sagg-out", "root", *limit)
        run(*inside, "tc", "qdisc", "add", "dev", "sagg-in", "root", *limit)
        yield inside
    finally:
        run("ip", "netns", "delete", NAMESPACE)  # and with it the link


@contextlib.contextmanager
def serving(program, host, folder):
    """The address of a server that listens there."""
    port = folder / f"port-{host}"
    command = [
        program,
        "serve",
        "--listen",
        f"{host}:0",
        "--port-file",
        port,
        "--admin-listen=none",
        "--allow-plaintext",
    ]
    log = folder / f"log-{host}"
    with log.open("wb") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output)
    try:
        while not (port.exists() and port.read_text().strip()):
            if process.poll() is not None:
                sys.exit(f"{program} does not serve at {host}:\n{log.read_text()}")
            time.sleep(0.01)
        yield f"{host}:{port.read_text().strip()}"
    finally:
        process.terminate()
        process.wait()


def wanted(only, repetitions):
    """The repetitions of each update whose name has one of these texts; all updates where there is none."""
    counts = {}
    for text in only or [""]:
        text, _, count = text.partition("=")
        names = [name for name in UPDATES if text in name]
        if not names:
            sys.exit(f'--only: no update has "{text}" in its name, only {", ".join(UPDATES)}')
        for name in names:
            counts[name] = int(count or repetitions)
    return counts


def measure(target, prefix, link, counts, scale):
    """Rows of one link: each encoding of each update."""
    for name, repetitions in counts.items():
        found = {encoding: [] for encoding in ENCODINGS}
        for _ in range(repetitions):
            for encoding in ENCODINGS:
                command = [
                    *prefix,
                    sys.executable,
                    __file__,
                    "--submit",
                    target,
                    name,
                    encoding,
                    str(scale),
                ]
                answer = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
                found[encoding].append(json.loads(answer))
        seconds = {
            encoding: statistics.median(each["seconds"] for each in found[encoding])
            for encoding in ENCODINGS
        }
        for encoding in ENCODINGS:
            middle = sorted(found[encoding], key=lambda each: each["seconds"])[repetitions // 2]
            yield {
                "link": link,
                "update": name,
                "encoding": encoding,
                **middle,
                "to_better": seconds[encoding] / min(seconds["coo.raw"], seconds["coo.packed"]),
                "repetitions": repetitions,
            }


def main():
    if sys.argv[1:2] == ["--submit"]:
        target, name, encoding, scale = sys.argv[2:]
        print(json.dumps(submit_once(target, name, encoding, int(scale))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--links", default="loopback,100mbit")
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT[=N]",
        help="only updates whose name has this text, N times each; may be given several times",
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="an eighth of the entries, once")
    arguments = parser.parse_args()
    scale, repetitions = (8, 1) if arguments.quick else (1, arguments.repetitions)
    counts = wanted(arguments.only, repetitions)
    rows = []
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for link in arguments.links.split(","):
            prefix = [] if link == "loopback" else stack.enter_context(namespace())
            host = "127.0.0.1" if link == "loopback" else OUTSIDE
            target = stack.enter_context(serving(arguments.server, host, folder))
            for row in measure(target, prefix, link, counts, scale):
                rows.append(row)
                print(json.dumps(row), flush=True)
    arguments.json.write_text(json.dumps({"benchmark": "link", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
