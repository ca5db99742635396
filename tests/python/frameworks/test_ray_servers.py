"""sparseagg.ray in a real Ray: a tree of servers as actors, which has the bits of one server, also after its actors were killed."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray")
import sparseagg.ray  # noqa: E402
from conftest import BINARY, ROOT  # noqa: E402
from ray.util import placement_group_table  # noqa: E402
from sparseagg import (  # noqa: E402
    Client,
    InvalidArgumentError,
    RetryPolicy,
    SparseAggError,
    SparseTensor,
    TensorSpec,
    Update,
)
from support import batch  # noqa: E402

ROWS, WIDTH = 5_000, 4
SPECS = [TensorSpec("emb", [ROWS, WIDTH], op="weighted_mean")]
RETRY = RetryPolicy(attempts=10_000, initial_delay=0.01, max_delay=0.1)
SECONDS_MAX = 120


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Ray on this machine. What it has is a number: no GPU is needed to place servers by GPUs."""
    os.environ["SPARSEAGG_BINARY"] = str(BINARY)
    environment = {"SPARSEAGG_BINARY": str(BINARY), "PYTHONPATH": os.pathsep.join(sys.path)}
    ray.init(
        address="local",
        num_cpus=8,
        num_gpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": environment},
    )
    yield
    ray.shutdown()


@pytest.fixture
def durable_server(own_server, tmp_path):
    """One server with a data directory: the digests of durable rounds are others than those of rounds in memory."""
    return own_server("--data-dir", str(tmp_path / "one"))


def update(number: int) -> Update:
    """Of sums that no f64 holds."""
    generator = np.random.default_rng(number)
    rows = np.sort(generator.choice(ROWS, 50, replace=False))
    scale = np.exp2(generator.integers(-60, 60, (50, WIDTH)))
    values = (generator.standard_normal((50, WIDTH)) * scale).astype(np.float32)
    tensor = SparseTensor(rows, values, [ROWS, WIDTH])
    return Update(
        {"emb": tensor}, contributor=f"c{number}", weight=1.0 + number % 5, update_id=f"u{number}"
    )


def submit(round_, numbers) -> list:
    """The receipts."""
    updates = (update(number) for number in numbers)
    return [
        round_.submit(
            one.tensors,
            contributor=one.contributor,
            weight=one.weight,
            update_id=one.update_id,
            encoding="coo.raw",
        )
        for one in updates
    ]


def bits(result) -> tuple:
    manifest = result.manifest
    arrays = (result["emb"].indices.tobytes(), result["emb"].values.tobytes())
    counts = (manifest.contributors, manifest.total_weight)
    return (*arrays, *counts, manifest.updates_digest, manifest.result_digest)


def bits_of_one_server(target: str, count: int) -> tuple:
    with Client(target) as client:
        round_ = client.create_round(SPECS)
        round_.submit_many([update(number) for number in range(count)], encoding="coo.raw")
        round_.seal()
        return bits(round_.result())


def process_of(actor) -> int:
    """The id of an actor's process, of a running one."""
    return ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))


def server_of(actor) -> int:
    """The id of its server's process."""
    return ray.get(actor.__ray_call__.remote(lambda self: self._process.pid))


@contextlib.contextmanager
def ending(*process_ids: int):
    """Waits at its end until these processes have ended."""
    watched = [os.pidfd_open(process) for process in process_ids]
    yield
    for process in watched:
        assert select.select([process], [], [], SECONDS_MAX)[0], "it still runs"
        os.close(process)


def wait_for_free(kind: str, number: int) -> None:
    """Waits until the places of servers that have ended are free again."""
    deadline = time.monotonic() + SECONDS_MAX
    while ray.available_resources().get(kind, 0) != number:
        assert time.monotonic() < deadline


def test_a_tree_of_actors_has_the_bits_of_one_server(durable_server):
    with sparseagg.ray.start(3) as tree, tree.client(retry=RETRY) as client:
        assert len(set(tree.leaves) | {tree.target}) == 4
        round_ = client.create_round(SPECS)
        assert not any(receipt.duplicate for receipt in submit(round_, range(20)))
        counts = []
        for leaf in tree.leaves:
            with Client(leaf) as direct:
                counts.append(direct.round(round_.name).info().contributors)
        assert sum(counts) == 20 and len([count for count in counts if count]) >= 2
        round_.seal()
        assert bits(round_.result()) == bits_of_one_server(durable_server.target, 20)


def test_leaves_own_the_rows_of_a_result(durable_server):
    spec = TensorSpec("w", [200_000, 2])

    def sums(client, **options):
        round_ = client.create_round([spec], **options)
        for number in range(8):
            rows = np.arange(number, 200_000, 50_000)
            tensor = SparseTensor(rows, np.full((rows.size, 2), 0.1, np.float32), [200_000, 2])
            round_.submit({"w": tensor}, contributor=f"c{number}", update_id="u")
        round_.seal()
        result = round_.result(timeout=SECONDS_MAX)
        owners = [part.owner for part in result.manifest.parts]
        digests = (result.manifest.updates_digest, result.manifest.result_digest)
        return owners, (result["w"].indices.tobytes(), result["w"].values.tobytes(), *digests)

    with sparseagg.ray.start(2) as tree, tree.client(retry=RETRY) as client:
        owners, found = sums(client, owners=True)
        # A leaf that is started again has its peers still.
        with ending(process_of(tree.actors[0])):
            os.kill(process_of(tree.actors[0]), signal.SIGKILL)
        again = sums(client, owners=True)
    assert owners == ["leaf-0", "leaf-1"]
    with Client(durable_server.target) as one:
        assert (owners, found) == again == (owners, sums(one)[1])


@pytest.mark.parametrize("killed", ["actor", "server"])
def test_what_was_acknowledged_outlives_the_kill_of_every_actor_and_every_server(
    durable_server, tmp_path, killed
):
    with (
        sparseagg.ray.start(2, data_dir=tmp_path / "tree") as tree,
        tree.client(retry=RETRY, timeout=SECONDS_MAX) as client,
    ):
        addresses = [*tree.leaves, tree.target]
        round_ = client.create_round(SPECS)
        number = 0
        for actor in tree.actors:
            submit(round_, range(number, number + 6))
            number += 6
            # SIGKILL of the Python process, or of the program alone.
            find = process_of if killed == "actor" else server_of
            with ending(process_of(actor), server_of(actor)):
                os.kill(find(actor), signal.SIGKILL)
        receipts = submit(round_, range(number))
        assert all(receipt.duplicate for receipt in receipts), "a receipt was lost"
        assert [*tree.leaves, tree.target] == addresses
        assert round_.info().contributors <= number
        round_.seal()
        result = round_.result(timeout=SECONDS_MAX)
        assert result.manifest.given_up_leaves == ()
        assert bits(result) == bits_of_one_server(durable_server.target, number)


def test_a_later_start_on_the_same_data_goes_on_with_the_rounds(durable_server, tmp_path):
    data = tmp_path / "tree"
    with sparseagg.ray.start(2, data_dir=data) as tree, tree.client(retry=RETRY) as client:
        submit(client.create_round(SPECS, "r1"), range(10))
    with sparseagg.ray.start(2, data_dir=data) as tree, tree.client(retry=RETRY) as client:
        round_ = client.round("r1")
        submit(round_, range(8, 20))
        round_.seal()
        result = round_.result(timeout=SECONDS_MAX)
        assert bits(result) == bits_of_one_server(durable_server.target, 20)


def test_each_leaf_has_gpus_of_its_own():
    # This build may have no back end for GPUs: the servers compute on the CPU, with the places of those that would not.
    settings = {"backend": "cpu"}
    with sparseagg.ray.start(2, gpus=1, cpus=2, settings=settings) as tree:
        assert ray.available_resources().get("GPU", 0) == 0
        assert ray.available_resources()["CPU"] == 8 - 1 - 2 * 2
        seen = []
        for actor in tree.actors:
            environment = Path(f"/proc/{server_of(actor)}/environ").read_bytes().split(b"\0")
            seen.append([one for one in environment if one.startswith(b"CUDA_VISIBLE_DEVICES=")])
            command = Path(f"/proc/{server_of(actor)}/cmdline").read_bytes().split(b"\0")
            assert b"--backend=cpu" in command
        *leaves, root = seen
        assert sorted(leaves) == [[b"CUDA_VISIBLE_DEVICES=0"], [b"CUDA_VISIBLE_DEVICES=1"]]
        assert root in ([], [b"CUDA_VISIBLE_DEVICES="])
    wait_for_free("GPU", 2)


def test_the_end_leaves_no_process_no_folder_and_no_place():
    tree = sparseagg.ray.start(1)
    folders = [
        ray.get(actor.__ray_call__.remote(lambda self: str(self._folder.path())))
        for actor in tree.actors
    ]
    assert all(os.path.isdir(folder) for folder in folders)
    with ending(*(server_of(actor) for actor in tree.actors)):
        tree.stop()
    tree.stop()
    assert not any(os.path.exists(folder) for folder in folders)
    wait_for_free("CPU", 8)
    states = {group["state"] for group in placement_group_table().values()}
    assert states == {"REMOVED"}


def test_a_cluster_that_is_too_small_says_what_it_has():
    with pytest.raises(
        SparseAggError, match=r"3 leaves \(1 CPU, 1 GPU each\).* 8 CPU, 2 GPU"
    ) as found:
        sparseagg.ray.start(3, gpus=1, start_timeout=1)
    assert found.value.reason == "NO_PLACEMENT"
    wait_for_free("CPU", 8)


def temporary_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("sparseagg-ray-*"))


def test_a_server_that_does_not_start_says_why_and_leaves_nothing():
    before = temporary_folders()
    with pytest.raises(SparseAggError, match="nonsense") as found:
        sparseagg.ray.start(1, settings={"nonsense": 1})
    assert found.value.reason == "RAY_SERVER_FAILED"
    assert temporary_folders() == before
    with pytest.raises(
        InvalidArgumentError, match=r"listen is decided by sparseagg.ray.start itself"
    ):
        sparseagg.ray.start(1, settings={"listen": "127.0.0.1:1"})
    with pytest.raises(InvalidArgumentError, match="nodes is 0"):
        sparseagg.ray.start(0)


def test_the_example_of_the_page_runs(tmp_path):
    page = (ROOT / "docs/trees.md").read_text().split("## On Ray", 1)[1]
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
    assert "/data/sparseagg" in block
    program = tmp_path / "program.py"
    program.write_text(
        block.replace("/data/sparseagg", str(tmp_path / "data")).replace(
            "ray.init()", 'ray.init(address="local", num_cpus=4)'
        )
    )
    code, output = batch.run(program)
    assert code == 0, output[-3000:]
    printed = re.findall(r"^print\(.*\) +# (.*)", block, re.MULTILINE)
    assert printed
    for line in printed:
        assert line in output.splitlines(), output[-3000:]
