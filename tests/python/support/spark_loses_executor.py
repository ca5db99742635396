"""examples/batch/with_spark.py on two executors, of which one is killed while it merges: what it has done is lost.

python spark_loses_executor.py FOLDER --out FILE    FOLDER takes the traces of attempts
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples/batch"))
import shares
import with_spark


def main() -> int:
    parser = shares.parser(__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    folder = options.folder
    died = str(folder / "died")

    # Without names of this module, which the workers do not have.
    def merged_by_one_that_dies(a, b):
        try:
            os.close(os.open(died, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return shares.merged(a, b)
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        assert b"java" in Path(f"/proc/{executor}/cmdline").read_bytes()
        os.kill(executor, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    # Spark begins when both are there: the second could come when the first has done all shares, and lose nothing.
    both = "--conf spark.cores.max=2 --conf spark.scheduler.minRegisteredResourcesRatio=1.0"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{both} pyspark-shell"
    with with_spark.start("local-cluster[2,1,1024]") as spark:
        job = shares.Job(options, folder)
        tasks = spark.sparkContext.parallelize(job.shares, len(job.shares))
        total = with_spark.total_of(tasks, 2, merged_by_one_that_dies)
        assert os.path.exists(died)
        return 0 if job.compare("two executors, one killed", total) else 1


if __name__ == "__main__":
    sys.exit(main())
