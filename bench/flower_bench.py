"""Measures Flower's quickstart with FedAvg and as docs/flower.md changes it, and the errors of both means.

    PYTHONPATH=python:tests/python python3 bench/flower_bench.py [errors] [quickstart] [--runs N]

Needs flwr[simulation], pytest, torch, and pip, which fetches the wheel that has the quickstart. SPARSEAGG_BINARY is the
server. The quickstart trains on CIFAR-10, which it downloads; here it gets made-up pictures of the same shapes instead.
"""

import argparse
import importlib
import logging
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from conftest import ROOT, Server
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from sparseagg.flower import SparseFedAvg
from support.flower_nodes import OPTIONS, Nodes, take_identity
from support.flower_quickstart import change, changes_of, download, render

NODES = 10
KINDS = ("FedAvg", "SparseFedAvg")
# In the place of CIFAR-10: ten patterns and noise, 250 pictures for each node.
DATA = '''
def load_data(partition_id: int, num_partitions: int):
    """Made-up pictures in the shapes of CIFAR-10."""
    patterns = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(99))
    random = torch.Generator().manual_seed(partition_id)
    labels = torch.randint(10, (250,), generator=random)
    pictures = 0.1 * patterns[labels] + 0.5 * torch.randn(250, 3, 32, 32, generator=random)
    data = [{"img": img, "label": label} for img, label in zip(pictures, labels)]
    trainloader = DataLoader(data[:200], batch_size=32, shuffle=True, generator=random)
    return trainloader, DataLoader(data[200:], batch_size=32)


'''


def errors(target):
    """The largest errors of one round of examples/flower_app's training, against the mean in 80-bit numbers."""
    sys.path.insert(0, str(ROOT / "examples/flower_app"))
    from clicks import task

    take_identity()
    initial = task.initial_arrays()
    random = np.random.default_rng(3)
    for size, counts in ((0, (10, 50)), (0.1, (10, 50)), (1, (10, 50)), (0.2, (50, 200))):
        start = {
            n: (a + size * random.normal(size=a.shape)).astype(np.float32)
            for n, a in initial.items()
        }
        for clients in counts:
            trained = []
            for node in range(clients):
                arrays = {n: a.copy() for n, a in start.items()}
                task.train(arrays, node)
                trained.append(arrays)
            exact = {n: sum(t[n].astype(np.longdouble) for t in trained) / clients for n in start}
            record = ArrayRecord({n: Array(a) for n, a in start.items()})
            found = []
            for strategy in (
                FedAvg(**OPTIONS),
                SparseFedAvg(sparse=["weights"], target=target, **OPTIONS),
            ):
                result = strategy.start(Nodes(*map(reply, trained)), record, num_rounds=1)
                found.append(
                    max(float(abs(result.arrays[n].numpy() - exact[n]).max()) for n in start)
                )
            print(
                f"values of size {size}, {clients} clients: FedAvg {found[0]:.2g}, SparseFedAvg {found[1]:.2g}"
            )


def reply(arrays):
    record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    metrics = MetricRecord({"num-examples": 1})
    return lambda message: Message(
        RecordDict({"arrays": record, "metrics": metrics}), reply_to=message
    )


def quickstart(target, runs):
    """Processor times, bytes and parameters of Flower's PyTorch quickstart, as it is and as the page changes it. ServerApp
    and clients are called in this process, one after another; what carries their messages is not measured."""
    import torch

    torch.set_num_threads(1)
    take_identity()
    os.environ["SPARSEAGG_SERVER"] = target
    logging.getLogger("flwr").addHandler(Means())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.chdir(folder)  # the app writes its model there
        wheel = download(folder)
        apps = {kind: render(wheel, "pytorch", folder / kind) for kind in KINDS}
        for app in apps.values():
            made_up(app)
        change(apps["SparseFedAvg"], changes_of((ROOT / "docs/flower.md").read_text()))
        subprocess.run(["diff", "-ru", *map(str, apps.values())], check=False)
        seconds, models = {}, {}
        for rounds in [1] + [3] * runs:
            for kind, app in apps.items():
                seconds.setdefault((kind, rounds), []).append(run(app, rounds))
                model = {n: t.numpy() for n, t in torch.load("final_model.pt").items()}
                models.setdefault((kind, rounds), []).append(model)
    size = sum(t.size for t in model.values())
    print(f"{size} parameters, {sum(t.nbytes for t in model.values())} bytes")
    for rounds in (1, 3):
        ours, theirs = models["SparseFedAvg", rounds], models["FedAvg", rounds]
        gap = max(map(largest_difference, ours, theirs))
        print(f"largest difference of the two after {rounds} rounds: {gap:.2g}")
    for (kind, rounds), each in seconds.items():
        of_runs = max(largest_difference(m, models[kind, rounds][0]) for m in models[kind, rounds])
        print(
            f"{kind}, {rounds} rounds: median {statistics.median(each):.2f} s of processor time, "
            f"{min(each):.2f} to {max(each):.2f}; largest difference of two runs {of_runs:.2g}"
        )


class Means(logging.Handler):
    """Prints what the strategy logs about each mean."""

    def emit(self, record):
        if "The mean of" in record.getMessage():
            print("   ", record.getMessage())


class Quickstart(Nodes):
    """A grid whose nodes run the quickstart's ClientApp."""

    def __init__(self, app):
        super().__init__(*[None] * NODES)
        self.mod = lambda message, context, _: app(message, context_of(message))


def context_of(message):
    node = message.metadata.dst_node_id
    place = {"partition-id": node - 1, "num-partitions": NODES}
    return Context(1, node, place, RecordDict(), {"local-epochs": 1, "lr": 0.01})


def run(app, rounds):
    """The processor seconds of a run of the app."""
    for name in [name for name in sys.modules if name.startswith("quickstart")]:
        del sys.modules[name]
    sys.path.insert(0, str(app))
    server = importlib.import_module("quickstart.server_app")
    client = importlib.import_module("quickstart.client_app")
    sys.path.remove(str(app))
    config = {"num-server-rounds": rounds, "fraction-train": 1.0, "lr": 0.01}
    begin = time.process_time()
    server.app(Quickstart(client.app), Context(1, 1, {}, RecordDict(), config))
    return time.process_time() - begin


def largest_difference(a, b):
    return max(abs(a[name] - b[name]).max() for name in a)


def made_up(app):
    """Takes out what downloads, and makes the first parameters the same in each run."""
    task = app / "quickstart/task.py"
    text = re.sub(r"from (flwr_datasets|torchvision).*\n", "", task.read_text())
    begin, end = text.index("fds = None"), text.index("def train(")
    task.write_text(text[:begin] + DATA.lstrip() + text[end:])
    server = "    global_model = Net()"
    change(app, [("server_app.py", server, f"    torch.manual_seed(0)\n{server}")])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["errors", "quickstart"])
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(pathlib.Path(folder))
        server.start()
        try:
            if "errors" in arguments.what:
                errors(server.target)
            if "quickstart" in arguments.what:
                quickstart(server.target, arguments.runs)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
