"""What the demo shows: a table while it runs, words that became neighbours, a picture and the numbers as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from check import Verdict
from model import nearest_words

# Words that a reader of licences expects to have telling neighbours.
_PROBES = (
    "license",
    "warranty",
    "copyright",
    "software",
    "university",
    "patent",
    "modify",
    "linux",
)
_PROBES_SHOWN = 5


@dataclass(frozen=True)
class RoundReport:
    """One row of the table."""

    round: int
    contributors: int
    nnz: int
    sparse_bytes: int  # payload that the contributors sent
    dense_bytes: int  # payload if every contributor sent the whole model
    train_seconds: float
    aggregation_seconds: float  # from seal to published
    held_out_loss: float


def print_header(initial_loss: float) -> None:
    """The head of the table, and the loss before the first round."""
    print(
        "\nround  contributors       nnz  sent sparse   sent dense  ratio  training  aggregation  held-out loss"
    )
    print(f"{'-':>5}{'':>81}{initial_loss:>14.4f}")


def print_round(row: RoundReport) -> None:
    """One row of the table."""
    clear_progress()
    print(
        f"{row.round:>5}{row.contributors:>14}{row.nnz:>10}{megabytes(row.sparse_bytes):>13}"
        f"{megabytes(row.dense_bytes):>13}{row.dense_bytes / row.sparse_bytes:>6.1f}x{row.train_seconds:>8.1f} s"
        f"{row.aggregation_seconds * 1000:>10.1f} ms{row.held_out_loss:>15.4f}",
        flush=True,
    )


def show_progress(what: str, done: int, total: int) -> None:
    """A bar that overwrites itself; nothing where the output is no terminal."""
    if sys.stdout.isatty():
        filled = 30 * done // total
        print(
            f"\r  {what} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}", end="", flush=True
        )


def clear_progress() -> None:
    """Takes the bar away."""
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")


def megabytes(count: int) -> str:
    """1234567 -> "1.2 MB"."""
    return f"{count / 1e6:.1f} MB"


def print_neighbours(
    words: Sequence[str], before: np.ndarray, after: np.ndarray
) -> dict[str, dict[str, list[str]]]:
    """Nearest words of some words, before and after; returned as well."""
    place = {word: number for number, word in enumerate(words)}
    probes = [word for word in _PROBES if word in place]
    # A text without licences: words that are neither very frequent nor rare.
    probes += [words[rank] for rank in range(100, len(words), 100) if words[rank] not in probes]
    found = {}
    print("\nNearest words, before and after training:")
    for probe in probes[:_PROBES_SHOWN]:
        lists = {
            when: [words[near] for near in nearest_words(table, place[probe], 4)]
            for when, table in (("before", before), ("after", after))
        }
        print(f"  {probe:<12} before: {', '.join(lists['before'])}")
        print(f"  {'':<12} after:  {', '.join(lists['after'])}")
        found[probe] = lists
    return found


def print_verdict(
    verdict: Verdict, aggregation_seconds: float, loss: float, dense_loss: float
) -> None:
    """What the check of the last round found; the held-out losses after it, as it was and with dense means."""
    print("\nCheck of the last round against other ways to aggregate the same updates:")
    print(
        f"  dense numpy, float64: {verdict.values} values, largest difference "
        f"{verdict.dense_max_difference:.3f} ulp of f32, beyond the bound of rounding: {verdict.dense_violations}"
    )
    print(
        f"    ({verdict.dense_seconds * 1000:.0f} ms, {megabytes(verdict.dense_bytes)} of dense updates and "
        f"{megabytes(verdict.dense_memory_bytes)} of memory; the server: {aggregation_seconds * 1000:.1f} ms from seal to "
        f"published)"
    )
    print(
        f"    (held-out loss {dense_loss:.4f} with the dense means, {loss:.4f} with the server's)"
    )
    print(
        f"  exact, rounded once:  {verdict.exact_values} values, different bits: {verdict.exact_differences}"
    )
    print(f"  VERDICT: {'PASSED' if verdict.passed else 'FAILED'}")


def draw(path: Path, rows: Sequence[RoundReport], initial_loss: float) -> bool:
    """The picture: loss and traffic by round. False where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (loss, traffic) = pyplot.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
    rounds = [row.round for row in rows]
    loss.plot(
        [0, *rounds],
        [initial_loss, *(row.held_out_loss for row in rows)],
        marker="o",
        color="#1f5fa8",
    )
    loss.set(title="Held-out loss", xlabel="round", ylabel="loss per word", ylim=(0, None))
    loss.grid(alpha=0.3)
    dense = np.array([row.dense_bytes for row in rows]) / 1e6
    sparse = np.array([row.sparse_bytes for row in rows]) / 1e6
    traffic.bar(rounds, dense, color="#c9c9c9", label="if they were dense (computed)")
    traffic.bar(rounds, sparse, color="#1f5fa8", label="sparse (sent)")
    factor = dense.sum() / sparse.sum()
    traffic.set(
        title=f"Updates of a round: {factor:.0f} times smaller", xlabel="round", ylabel="MB"
    )
    traffic.set_ylim(0, 1.25 * dense.max())
    traffic.legend(loc="upper right", ncol=2, frameon=False)
    for axes in (loss, traffic):
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return True


def write_json(
    path: Path,
    settings: dict[str, object],
    initial_loss: float,
    rows: Sequence[RoundReport],
    verdict: Verdict,
    neighbours: dict[str, dict[str, list[str]]],
) -> None:
    """All numbers, for programs."""
    document = {
        "settings": settings,
        "initial_loss": initial_loss,
        "rounds": [dataclasses.asdict(row) for row in rows],
        "verdict": {**dataclasses.asdict(verdict), "passed": verdict.passed},
        "neighbours": neighbours,
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
