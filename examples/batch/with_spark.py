"""Ten million entries, summed by Spark: mapPartitions makes partial aggregates, treeReduce merges them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import shares
from pyspark import RDD
from pyspark.sql import SparkSession
from sparseagg import Partial, merge_partials


def total_of(tasks: RDD, depth: int, merged: Callable = shares.merged) -> Partial:
    """The sum of the shares in `tasks`. Spark pickles a Partial as its bytes where it goes to another process."""
    partials = tasks.mapPartitions(lambda part: [merge_partials(map(shares.partial_of, part))])
    return partials.treeReduce(merged, depth)


def main() -> int:
    parser = shares.parser(__doc__)
    master = "local[2,4]"  # two tasks at a time, each of which may be tried four times
    parser.add_argument("--master", default=master, help="default: %(default)s")
    parser.add_argument("--depth", type=int, default=2, help="of the tree; default: %(default)s")
    options = parser.parse_args()
    with start(options.master) as spark:
        job = shares.Job(options)
        tasks = spark.sparkContext.parallelize(job.shares, len(job.shares))
        total = total_of(tasks, options.depth)
        how = f"Spark {spark.version}, {options.master}, depth {options.depth}"
        return 0 if job.compare(how, total) else 1


def start(master: str) -> SparkSession:
    """Spark with this folder's `shares` on its workers."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.addPyFile(shares.__file__)
    return spark


if __name__ == "__main__":
    sys.exit(main())
