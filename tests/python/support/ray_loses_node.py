"""examples/batch/with_ray.py on two nodes, of which one is killed once all shares are summed: what it has is lost.

python ray_loses_node.py FOLDER --out FILE    FOLDER takes the traces of attempts
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples/batch"))
import ray
import shares
import with_ray
from ray.cluster_utils import Cluster


def main() -> int:
    parser = shares.parser(__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    folder = options.folder
    memory = {"object_store_memory": 200 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **memory})
    nodes = [cluster.add_node(num_cpus=1, **memory) for _ in range(2)]
    ray.init(cluster.address, runtime_env=with_ray.ENVIRONMENT)
    cluster.wait_for_nodes()
    job = shares.Job(options, folder)
    sums = [with_ray.partial_of.remote(share) for share in job.shares]
    ray.wait(sums, num_returns=len(sums), fetch_local=False)
    assert len(list(folder.glob("attempt.*"))) == len(sums)
    cluster.remove_node(nodes[0], allow_graceful=False)
    cluster.add_node(num_cpus=1, **memory)
    passed = job.compare("two nodes, one killed", with_ray.total_of(sums, 2))
    ray.shutdown()
    cluster.shutdown()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
