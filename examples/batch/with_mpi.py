"""Ten million entries, summed by MPI: each rank sums its shares, and a reduction merges partial aggregates along its tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import shares
from mpi4py import MPI
from sparseagg import Partial, Reduction, merge_partials


def main() -> int:
    parser = shares.parser(__doc__)
    parser.add_argument(
        "--group",
        type=int,
        default=0,
        help="ranks that are reduced first, such as those of one machine; default: all at once",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        help="a folder for the sums of shares, which a job that is run again reads",
    )
    options = parser.parse_args()
    ranks = MPI.COMM_WORLD
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    job = shares.Job(options, options.keep)
    own = [partial_of(share, options.keep) for share in job.shares[ranks.rank :: ranks.size]]
    partial = merge_partials(own) if own else Reduction(shares.SPECS).snapshot()
    if options.group:
        group = ranks.Split(ranks.rank // options.group)
        partial = group.reduce(partial, op=shares.merged)
        ranks = ranks.Split(0 if group.rank == 0 else MPI.UNDEFINED)
    # MPI calls the operation on two objects at a time, which mpi4py pickles on the way: a Partial as its bytes.
    total = ranks.reduce(partial, op=shares.merged) if ranks else None
    if total is None:
        return 0
    how = f"MPI, {MPI.COMM_WORLD.size} ranks" + (
        f" in groups of {options.group}" if options.group else ""
    )
    return 0 if job.compare(how, total) else 1


def partial_of(share: shares.Share, folder: Path | None) -> Partial:
    """The sum of a share: from the folder, if an earlier job has left it there."""
    if folder is None:
        return shares.partial_of(share)
    file = folder / f"{share.name}.partial"
    if file.exists():
        return Partial.from_bytes(file.read_bytes())
    partial = shares.partial_of(share)
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(partial.to_bytes())
    unfinished.replace(file)
    return partial


if __name__ == "__main__":
    sys.exit(main())
