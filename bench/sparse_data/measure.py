"""One measurement of run.py, in a process of its own: measure.py WAY sparse|dense DATA OUT REPETITIONS.

A way is a module with the class `Way(form)`: `load(indices, values, dense_shape)` gives the examples; `statistics(examples)` the
arrays document_frequency, total, minimum, maximum by feature; `renumber(examples)` (features, local), and
`gradient(local, labels, weights[features])` the gradient of the mean logistic loss. Features that no example holds have 0 everywhere in what is written to OUT.

The time of `load` is that of making the examples from indices and values. Time is processor time, and memory the highest
resident memory above that after the imports: of this process and its children, of which TFF has one that computes. The
examples count as memory, reading them from the file does not.
"""

import importlib
import importlib.metadata
import json
import os
import pathlib
import signal
import sys
import time

import numpy as np

_PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "torch": "torch",
    "torch_scipy": "torch",
    "tff": "tensorflow-federated",
}
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def processes(pid=None):
    """This process and its descendants."""
    pid = pid or os.getpid()
    yield pid
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from processes(int(child))


def cpu_seconds():
    """User and system time of them all; that of children by ticks of 10 ms."""
    ticks = 0
    for pid in list(processes())[1:]:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / _TICKS_A_SECOND


def memory_mb(field):
    """VmRSS or VmHWM of them all."""
    total = 0
    for pid in processes():
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field):
                total += int(line.split()[1])
    return total * 1024 / 1e6


def forget_peak():
    """Lets VmHWM begin again at the memory of now."""
    for pid in processes():
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def timed(repetitions, work, *arguments):
    """Mean milliseconds of processor time, and the last result."""
    begin = cpu_seconds()
    for _ in range(repetitions):
        result = work(*arguments)
    return 1e3 * (cpu_seconds() - begin) / repetitions, result


def spread(features, rows, num_features):
    """Rows by feature as a table of all features."""
    table = np.zeros((num_features, *rows.shape[1:]), np.asarray(rows).dtype)
    table[features] = rows
    return table


def main():
    name, form, path, out, repetitions = sys.argv[1:]
    way = importlib.import_module(f"{name}_way").Way(form)
    # A small case first, so that nothing is loaded or compiled later.
    small = way.load(np.int64([[0, 1], [1, 0]]), np.float32([1, 2]), (2, 3))
    way.statistics(small)
    features, small = way.renumber(small)
    way.gradient(small, np.int64([0, 1]), np.zeros((3, 16), np.float32)[features])
    with np.load(path) as data:
        labels, weights = data["labels"], data["weights"]
        before = memory_mb("VmRSS")
        components = data["indices"], data["values"], tuple(data["dense_shape"].tolist())
    making_ms, examples = timed(1, way.load, *components)
    del components
    data_mb = memory_mb("VmRSS") - before
    forget_peak()
    statistics_ms, statistics = timed(int(repetitions), way.statistics, examples)
    renumbering_ms, (chosen, local) = timed(1, way.renumber, examples)
    gradient_ms, gradient = timed(int(repetitions), way.gradient, local, labels, weights[chosen])
    peak_mb = memory_mb("VmHWM") - before
    results = {what: np.asarray(values, np.float64) for what, values in statistics.items()}
    features = results.pop("features", np.arange(len(weights))).astype(np.int64)
    results = {what: spread(features, values, len(weights)) for what, values in results.items()}
    results["gradient"] = spread(chosen, gradient, len(weights))
    np.savez(out, **results)
    numbers = {
        "making_ms": making_ms,
        "statistics_ms": statistics_ms,
        "renumbering_ms": renumbering_ms,
        "gradient_ms": gradient_ms,
    }
    package = _PACKAGES[name]
    versions = f"numpy {np.__version__}"
    if package != "numpy":
        versions = f"{importlib.metadata.version(package)}, {versions}"
    numbers.update(peak_mb=peak_mb, data_mb=data_mb, versions=versions)
    print(json.dumps(numbers), flush=True)
    for pid in list(processes())[1:]:  # TFF's, which would live on and keep the pipe open
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
