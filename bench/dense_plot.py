"""Draws the report of dense_bench, and says where dense aggregation begins to be faster: dense_plot.py FILE.json FILE.svg"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "reduce"))
import plots
from plots import plt


def crossing(points: list[dict], ratio: str) -> float | None:
    """The density where the sparse way takes as long as a dense one; None when it never does."""
    for before, after in zip(points, points[1:]):
        if before[ratio] < 1 <= after[ratio]:
            low, high = math.log(before["density"]), math.log(after["density"])
            share = -math.log(before[ratio]) / (math.log(after[ratio]) - math.log(before[ratio]))
            return math.exp(low + share * (high - low))
    return None


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    report = json.loads(source.read_text())
    sparse = sorted(
        (row for row in report["rows"] if row["way"] == "sparse"), key=lambda row: row["density"]
    )
    dense = {row["way"]: row for row in report["rows"] if row["way"] != "sparse"}
    density = [row["density"] for row in sparse]
    with plt.rc_context(plots.STYLE):
        figure, panels = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
        for axes, column, title in zip(
            panels, ("ms", "mb_sent", "peak_mb"), ("milliseconds", "MB sent", "MB, server's peak")
        ):
            axes.plot(
                density,
                [row[column] for row in sparse],
                color=plots.OURS,
                marker="o",
                markersize=4,
                linewidth=2.2,
                label="sparse",
            )
            axes.axhline(dense["dense"][column], color=plots.DENSE, label="dense, this server")
            axes.axhline(
                dense["plain adder"][column],
                color=plots.GREY,
                linestyle="--",
                label="dense, plain gRPC adder",
            )
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("density")
            axes.set_title(title)
            axes.grid(True)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        plots.save(figure, target)
    for ratio, name in (
        ("time_to_dense", "dense through this server"),
        ("time_to_adder", "a plain adder"),
    ):
        at = crossing(sparse, ratio)
        print(
            f"sparse takes as long as {name} at density {at:.2g}"
            if at
            else f"sparse is never as slow as {name}"
        )


if __name__ == "__main__":
    main()
