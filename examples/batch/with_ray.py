"""Ten million entries, summed by Ray: tasks return partial aggregates, and other tasks merge them in a tree."""

from __future__ import annotations

import sys
from pathlib import Path

import ray
import shares
from sparseagg import Partial, merge_partials

ENVIRONMENT = {"working_dir": str(Path(__file__).parent)}  # for workers to have `shares`


@ray.remote(max_retries=3)
def partial_of(share):
    return shares.partial_of(share)


@ray.remote(max_retries=3)
def merged(*partials):
    return merge_partials(partials)


def total_of(level: list[ray.ObjectRef], fan_in: int) -> Partial:
    """Merges partial aggregates in a tree of tasks. Ray stores a Partial as its bytes, on the node that made it."""
    while len(level) > 1:
        groups = range(0, len(level), fan_in)
        level = [merged.remote(*level[n : n + fan_in]) for n in groups]
    return ray.get(level[0])


def main() -> int:
    parser = shares.parser(__doc__)
    parser.add_argument("--workers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--fan-in", type=int, default=2, help="of a merge; default: %(default)s")
    parser.add_argument("--address", help="a cluster that runs; default: one is started here")
    options = parser.parse_args()
    if options.address:
        ray.init(options.address, runtime_env=ENVIRONMENT)
    else:
        own = {"num_cpus": options.workers, "object_store_memory": 500 << 20}
        ray.init(runtime_env=ENVIRONMENT, include_dashboard=False, **own)
    job = shares.Job(options)
    total = total_of([partial_of.remote(share) for share in job.shares], options.fan_in)
    how = f"Ray {ray.__version__}, {options.workers} workers, fan-in {options.fan_in}"
    passed = job.compare(how, total)
    ray.shutdown()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
