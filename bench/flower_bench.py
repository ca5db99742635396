"""Measures Flower's quickstart with FedAvg and as docs/flower.md changes it, and the errors of both means.

    PYTHONPATH=python:tests/python python3 bench/flower_bench.py [errors] [quickstart] [--runs N]

Needs flwr[simulation], pytest, torch, and pip, which fetches the wheel that has the quickstart. SPARSEAGG_BINARY is the
server. The quickstart trains on CIFAR-10, which it downloads; here it gets made-up pictures of the same shapes instead.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from conftest import ROOT, Server
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from sparseagg.flower import SparseFedAvg
from support.flower_deployment import Deployment
from support.flower_nodes import OPTIONS, Nodes, take_identity
from support.flower_quickstart import change, changes_of, download, render

NODES = 10
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
    after_some_rounds = {
        n: (a + 0.1 * random.normal(size=a.shape)).astype(np.float32) for n, a in initial.items()
    }
    for name, start in (("zeros", initial), ("numbers of size 0.1", after_some_rounds)):
        for clients in (10, 50):
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
                f"start {name}, {clients} clients: FedAvg {found[0]:.2g}, SparseFedAvg {found[1]:.2g}"
            )


def reply(arrays):
    record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    metrics = MetricRecord({"num-examples": 1})
    return lambda message: Message(
        RecordDict({"arrays": record, "metrics": metrics}), reply_to=message
    )


def quickstart(target, runs):
    """Times, bytes and parameters of Flower's PyTorch quickstart, as it is and as the page changes it."""
    import torch

    os.environ["SPARSEAGG_SERVER"] = target
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = download(folder)
        apps = []
        for kind in ("FedAvg", "SparseFedAvg"):
            app = render(wheel, "pytorch", folder / kind)
            made_up(app)
            apps.append((kind, app))
        change(apps[1][1], changes_of((ROOT / "docs/flower.md").read_text()))
        subprocess.run(["diff", "-ru", *(str(app) for _, app in apps)], check=False)
        flower = Deployment(folder)
        seconds, models = {}, {}
        try:
            for rounds in [1] + [3] * runs:
                for kind, app in apps:
                    config = {"num-server-rounds": rounds, "fraction-train": 1.0}
                    output = flower.run(app, f"num-supernodes={NODES}", timeout=1200, **config)
                    took = re.search(r"execution finished in ([\d.]+)s", output)
                    if not took:
                        sys.exit(output)
                    model = torch.load(folder / "final_model.pt")
                    models[kind] = {n: t.numpy() for n, t in model.items()}
                    seconds.setdefault((kind, rounds), []).append(float(took[1]))
                    print(f"{kind}, {rounds} rounds: {took[1]} s", flush=True)
                    for line in re.findall(r"The mean of.*|'eval_acc': [^,}]*", output):
                        print(f"    {line}", flush=True)
                compare(models, rounds)
        finally:
            flower.stop()
    for (kind, rounds), each in seconds.items():
        print(f"{kind}, {rounds} rounds: median {statistics.median(each):.1f} s of {each}")


def compare(models, rounds):
    ours, theirs = models["SparseFedAvg"], models["FedAvg"]
    gap = max(abs(ours[n] - theirs[n]).max() for n in theirs)
    size = sum(t.size for t in theirs.values())
    print(f"{size} parameters, largest difference after {rounds} rounds: {gap:.2g}", flush=True)


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
    parser.add_argument("--runs", type=int, default=3)
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
