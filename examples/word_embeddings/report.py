"""What the demo shows: a table while it runs, words that became neighbours, a picture and the numbers as JSON."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from collections.abc import Mapping, Sequence
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
_PICTURE = "word_embeddings.png"
_PICTURE_OF_ONE_SERVER = "word_embeddings_one_server.png"


@dataclass(frozen=True)
class RoundReport:
    """One row of the table."""

    round: int
    contributors: int
    nnz: int
    sent_bytes: int  # payload that the contributors sent
    dense_bytes: int  # payload if every contributor sent the whole model
    train_seconds: float
    aggregation_seconds: float  # from seal to published
    held_out_loss: float


@dataclass
class Run:
    """One training: its rounds, the loss before them, by how many bytes the server's processes grew (0: not known), the
    digest of the parameters, and what the check of the last round found (of the sparse one)."""

    rows: list[RoundReport]
    initial_loss: float
    memory_bytes: int
    parameters_digest: str
    verdict: Verdict | None = None
    neighbours: dict[str, dict[str, list[str]]] | None = None

    @property
    def loss(self) -> float:
        """Returns the loss at the end."""
        return self.rows[-1].held_out_loss

    @property
    def fell(self) -> bool:
        """True where the training was of use."""
        return self.loss < self.initial_loss

    @property
    def bytes_sent(self) -> int:
        """By all contributors."""
        return sum(row.sent_bytes for row in self.rows)

    @property
    def seconds(self) -> float:
        """Of all rounds: local training, transfer, aggregation."""
        return sum(row.train_seconds + row.aggregation_seconds for row in self.rows)


def same_loss(sparse: Run, dense: Run) -> bool:
    """Both trainings end alike; the dense one rounds its sums before it divides them."""
    return abs(sparse.loss - dense.loss) <= 1e-3 * dense.loss


def same_parameters(tree: Run, one_server: Run) -> bool:
    """Both trainings end with the same bits."""
    return tree.parameters_digest == one_server.parameters_digest


def same_outcome(tree: Run, one_server: Run, pictures: Mapping[str, bytes]) -> bool:
    """The same bits of parameters and, where they are drawn, of both pictures."""
    return same_parameters(tree, one_server) and len(set(pictures.values())) <= 1


def print_tree(tree: Run, one_server: Run, nodes: int, pictures: Mapping[str, bytes]) -> None:
    """The training through a tree beside that through one server."""
    print(f"\n{'':24}{'time':>9}{'memory':>12}{'held-out loss':>16}  parameters (SHA-256)")
    for name, run in ((f"a root, leaves: {nodes}", tree), ("one server", one_server)):
        print(
            f"{name:24}{run.seconds:>7.1f} s{megabytes(run.memory_bytes):>12}{run.loss:>16.4f}  "
            f"{run.parameters_digest[:16]}"
        )
    parameters = "same" if same_parameters(tree, one_server) else "DIFFERENT"
    drawn = "same" if len(set(pictures.values())) == 1 else "DIFFERENT"
    print(f"  bits of the parameters: {parameters}, of the pictures: {drawn if pictures else '-'}")
    print(f"  VERDICT: {'PASSED' if same_outcome(tree, one_server, pictures) else 'FAILED'}")


def print_twins(sparse: Run, dense: Run) -> None:
    """The two trainings side by side."""
    print(f"\n{'':8}{'sent up':>14}{'time':>11}{'server memory':>16}{'held-out loss':>16}")
    for name, run in (("sparse", sparse), ("dense", dense)):
        memory = megabytes(run.memory_bytes) if run.memory_bytes else "-"
        print(
            f"{name:8}{megabytes(run.bytes_sent):>14}{run.seconds:>9.1f} s{memory:>16}{run.loss:>16.4f}"
        )
    print(f"  VERDICT: {'PASSED' if same_loss(sparse, dense) else 'FAILED'}")


def print_header(initial_loss: float) -> None:
    """The head of the table, and the loss before the first round."""
    print(
        "\nround  contributors       nnz         sent     if dense  ratio  training  aggregation  held-out loss"
    )
    print(f"{'-':>5}{'':>81}{initial_loss:>14.4f}")


def print_round(row: RoundReport) -> None:
    """One row of the table."""
    clear_progress()
    print(
        f"{row.round:>5}{row.contributors:>14}{row.nnz:>10}{megabytes(row.sent_bytes):>13}"
        f"{megabytes(row.dense_bytes):>13}{row.dense_bytes / row.sent_bytes:>6.1f}x{row.train_seconds:>8.1f} s"
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


def print_verdict(run: Run, dense_loss: float) -> None:
    """What the check of the last round found; dense_loss: the held-out loss with dense means in this round."""
    verdict = run.verdict
    assert verdict is not None
    print("\nCheck of the last round against other ways to aggregate the same updates:")
    print(
        f"  dense numpy, float64: {verdict.values} values, largest difference "
        f"{verdict.dense_max_difference:.3f} ulp of f32, beyond the bound of rounding: {verdict.dense_violations}"
    )
    print(
        f"    ({verdict.dense_seconds * 1000:.0f} ms, {megabytes(verdict.dense_bytes)} of dense updates and "
        f"{megabytes(verdict.dense_memory_bytes)} of memory; the server: {run.rows[-1].aggregation_seconds * 1000:.1f} ms from seal to "
        f"published)"
    )
    print(
        f"    (held-out loss {dense_loss:.4f} with the dense means, {run.loss:.4f} with the server's)"
    )
    print(
        f"  exact, rounded once:  {verdict.exact_values} values, different bits: {verdict.exact_differences}"
    )
    print(f"  VERDICT: {'PASSED' if verdict.passed else 'FAILED'}")


def write(
    out: Path,
    settings: dict[str, object],
    sparse: Run,
    dense: Run | None,
    one_server: Run | None,
    pictures: Mapping[str, bytes],
) -> None:
    """The pictures and the numbers, and where they are."""
    _write_json(out / "word_embeddings.json", settings, sparse, dense, one_server)
    for name, picture in pictures.items():
        (out / name).write_bytes(picture)
    computed = sum(row.dense_bytes for row in sparse.rows)
    print(
        f"\nHeld-out loss {sparse.initial_loss:.4f} -> {sparse.loss:.4f} in {len(sparse.rows)} rounds; "
        f"{megabytes(sparse.bytes_sent)} sent, {megabytes(computed)} if it were dense"
    )
    for name in pictures:
        print(f"Picture: {out / name}")
    if not pictures:
        print("No picture: python3-matplotlib is missing")
    print(f"Numbers: {out / 'word_embeddings.json'}")


def draw(sparse: Run, dense: Run | None, one_server: Run | None) -> dict[str, bytes]:
    """The pictures by the names of their files; none where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return {}
    matplotlib.use("Agg")
    pictures = {_PICTURE: _picture(sparse, dense)}
    if one_server:
        pictures[_PICTURE_OF_ONE_SERVER] = _picture(one_server, dense)
    return pictures


def _picture(sparse: Run, dense: Run | None) -> bytes:
    """Loss and traffic by round."""
    from matplotlib import pyplot

    figure, (loss, traffic) = pyplot.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
    rounds = [row.round for row in sparse.rows]
    curves = [(sparse, {"marker": "o", "color": "#1f5fa8", "label": "sparse"})]
    if dense:
        curves.append((dense, {"linestyle": "--", "color": "#d0702c", "label": "dense"}))
    for run, style in curves:
        losses = [run.initial_loss, *(row.held_out_loss for row in run.rows)]
        loss.plot([0, *rounds], losses, **style)
    loss.set(title="Held-out loss", xlabel="round", ylabel="loss per word", ylim=(0, None))
    loss.grid(alpha=0.3)
    loss.legend(frameon=False)
    # What the dense twin sent, or what it would have.
    rows, label = (dense.rows, "dense") if dense else (sparse.rows, "dense (computed)")
    large = np.array([row.sent_bytes if dense else row.dense_bytes for row in rows]) / 1e6
    small = np.array([row.sent_bytes for row in sparse.rows]) / 1e6
    traffic.bar(rounds, large, color="#c9c9c9", label=label)
    traffic.bar(rounds, small, color="#1f5fa8", label="sparse")
    factor = large.sum() / small.sum()
    traffic.set(
        title=f"Updates of a round: {factor:.0f} times smaller", xlabel="round", ylabel="MB"
    )
    traffic.set_ylim(0, 1.25 * large.max())
    traffic.legend(loc="upper right", ncol=2, frameon=False)
    for axes in (loss, traffic):
        axes.xaxis.get_major_locator().set_params(integer=True)
    file = io.BytesIO()
    figure.savefig(file, dpi=80)
    pyplot.close(figure)
    return file.getvalue()


def _write_json(
    path: Path,
    settings: dict[str, object],
    sparse: Run,
    dense: Run | None,
    one_server: Run | None,
) -> None:
    """All numbers, for programs."""
    verdict = sparse.verdict
    assert verdict is not None
    document = {
        "settings": settings,
        "initial_loss": sparse.initial_loss,
        "rounds": [dataclasses.asdict(row) for row in sparse.rows],
        "memory_bytes": sparse.memory_bytes,
        "parameters_sha256": sparse.parameters_digest,
        "verdict": {**dataclasses.asdict(verdict), "passed": verdict.passed},
        "neighbours": sparse.neighbours,
    }
    if dense is not None:
        rounds = [dataclasses.asdict(row) for row in dense.rows]
        document["dense_twin"] = {"rounds": rounds, "memory_bytes": dense.memory_bytes}
    if one_server is not None:
        document["one_server"] = {
            "rounds": [dataclasses.asdict(row) for row in one_server.rows],
            "memory_bytes": one_server.memory_bytes,
            "parameters_sha256": one_server.parameters_digest,
        }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
