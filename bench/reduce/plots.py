"""Pictures of a report, as SVG without a background, in colours that can be read on white and on black."""

from __future__ import annotations

from pathlib import Path

import crossover
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

GREY = "#808890"
OURS = "#2f81f7"
_STREAM = "#39a0a8"
DENSE = "#d9822b"
_PEERS = {
    "std::sort": "#a371f7",
    "tbb": "#a371f7",
    "Eigen": "#8957e5",
    "naive": "#d9822b",
    "numpy": "#e0699a",
    "scipy": "#c94f7c",
    "torch": "#e5534b",
    "tensorflow": "#d29922",
    "pandas": "#57ab5a",
    "polars": "#3f9142",
}
_ROWS_MAX = 40

STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": GREY,
    "axes.facecolor": "none",
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.titlecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # The same report gives the same bytes.
    "svg.hashsalt": "sparseagg",
}


def save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(
        path, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None}
    )
    plt.close(figure)


def plot_cases(reports: list[dict], threads: int, path: Path) -> bool:
    """Nanoseconds an entry, a line for each case: ours and every peer that could do it. False: nothing to show."""
    measured = [report for report in reports if report.get("rows")]
    with_peers = [
        report
        for report in measured
        if any(not row["own"] and "version" in row and "seconds" in row for row in report["rows"])
    ]
    shown = (with_peers or measured)[:_ROWS_MAX]
    if not shown:
        return False
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 1.4 + 0.3 * len(shown)), layout="constrained")
        for place, report in enumerate(reversed(shown)):
            _plot_case(axes, place, report, threads)
        axes.set_yticks(range(len(shown)), [report["case"] for report in reversed(shown)])
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.set_xscale("log")
        axes.set_xlabel(f"nanoseconds an entry, {threads} threads where the contender takes them")
        axes.grid(axis="x")
        _legend_once(axes)
        save(figure, path)
    return True


def _plot_case(axes: plt.Axes, place: int, report: dict, threads: int) -> None:
    best: dict = {}
    for row in report["rows"]:
        if "seconds" not in row:
            continue
        if row["own"]:
            if row["contender"].endswith("/auto") and row["threads"] == threads:
                label = "this project" + (", streaming" if row["form"] == "stream" else "")
                best[label] = min(best.get(label, row["ns_entry"]), row["ns_entry"])
            continue
        family = next((f for f in _PEERS if row["contender"].startswith(f)), None)
        if family:
            best[family] = min(best.get(family, row["ns_entry"]), row["ns_entry"])
    for label, value in best.items():
        if label.startswith("this"):
            colour, marker, size = (
                (_STREAM, "d", 5) if label.endswith("streaming") else (OURS, "D", 7)
            )
        else:
            colour, marker, size = _PEERS[label], "os^v"[list(_PEERS).index(label) % 4], 5
        axes.plot(value, place, marker, color=colour, markersize=size, label=label, alpha=0.9)


def _legend_once(axes: plt.Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles))
    axes.legend(
        once.values(),
        once.keys(),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=6,
        numpoints=1,
    )


def plot_crossover(reports: list[dict], threads: int, path: Path) -> bool:
    """Seconds by density, a panel for each shape. False: nothing to show."""
    reports = [report for report in reports if report["points"]]
    if not reports:
        return False
    with plt.rc_context(STYLE):
        width = 4.6 * len(reports) + 0.6
        figure, panels = plt.subplots(
            1, len(reports), figsize=(width, 4), squeeze=False, layout="constrained"
        )
        for axes, report in zip(panels[0], reports):
            _plot_shape(axes, report, threads)
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        save(figure, path)
    return True


def _plot_shape(axes: plt.Axes, report: dict, threads: int) -> None:
    auto = crossover.own_auto(report["dense"])
    backend = auto.removesuffix("/auto")
    names = {row["contender"] for point in report["points"] for row in point["rows"]}
    plans = sorted(n for n in names if n.startswith(backend + "/") and n != auto)
    for number, name in enumerate(plans):
        _curve(
            axes,
            report,
            name,
            threads,
            color=GREY,
            linewidth=0.8,
            label=f"plan {name.removeprefix(backend + '/')}",
            linestyle=("--", ":", "-.", "-")[number % 4],
        )
    _curve(
        axes,
        report,
        auto,
        threads,
        color=OURS,
        linewidth=2.2,
        marker="o",
        markersize=4,
        label=f"sparse, the planner's choice ({threads} threads)",
    )
    _curve(
        axes,
        report,
        crossover.SCATTER,
        1,
        color="#e0699a",
        linewidth=1.4,
        label="sparse into a dense array, numpy",
    )
    numpy_seconds = crossover.seconds_of(report["dense"], crossover.NUMPY, 1)
    if numpy_seconds:
        axes.axhline(numpy_seconds, color=DENSE, linewidth=1.8, label="dense vectors, numpy")
    own_seconds = crossover.seconds_of(report["dense"], auto, threads)
    if own_seconds:
        axes.axhline(
            own_seconds,
            color="#a371f7",
            linewidth=1.4,
            linestyle="--",
            label=f"dense vectors, exact, this project ({threads} threads)",
        )
    axes.set_title(f"{report['contributors']} contributors, {report['values']:,} values")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("density of an update")
    axes.set_ylabel("seconds")
    axes.grid(True)


def _curve(axes: plt.Axes, report: dict, name: str, threads: int, **style: object) -> None:
    points = [
        (point["density"], seconds)
        for point in report["points"]
        if (seconds := crossover.seconds_of(point["rows"], name, threads)) is not None
    ]
    if points:
        axes.plot(*zip(*points), **style)
