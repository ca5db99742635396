"""A leaf of sparseagg.ray whose node is killed, on three nodes with addresses of their own and the same folder for data.

python ray_moves_leaf.py FOLDER
"""

import sys

import numpy as np
import ray
import sparseagg.ray
from ray.cluster_utils import Cluster
from sparseagg import RetryPolicy, SparseTensor, TensorSpec

RETRY = RetryPolicy(attempts=10_000, initial_delay=0.01, max_delay=0.1)


def submit(round_, numbers) -> list:
    tensor = SparseTensor(np.array([0]), np.ones(1, np.float32), [10])
    return [
        round_.submit({"w": tensor}, contributor=f"c{number}", update_id="u") for number in numbers
    ]


def main() -> int:
    memory = {"object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **memory})
    # A leaf with a GPU fits there only, and then there is no place for the root.
    node = cluster.add_node(num_cpus=1, num_gpus=1, node_ip_address="127.0.0.2", **memory)
    ray.init(cluster.address)
    cluster.wait_for_nodes()
    with (
        sparseagg.ray.start(1, gpus=1, settings={"backend": "cpu"}, data_dir=sys.argv[1]) as tree,
        tree.client(retry=RETRY, timeout=120) as client,
    ):
        [address] = tree.leaves
        assert address.startswith("127.0.0.2:"), address
        round_ = client.create_round([TensorSpec("w", [10])])
        submit(round_, range(5))
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=1, num_gpus=1, node_ip_address="127.0.0.3", **memory)
        [address] = tree.leaves
        assert address.startswith("127.0.0.3:"), address
        round_.seal()
        assert round_.result(timeout=120).manifest.contributors == 5
        # The root tells the leaf where its peers are now, here itself.
        owned = client.create_round([TensorSpec("w", [10])], owners=True)
        submit(owned, range(5))
        owned.seal()
        assert owned.result(timeout=120).manifest.contributors == 5
    print("MOVED AND COUNTED")
    ray.shutdown()
    cluster.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
