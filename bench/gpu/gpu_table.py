"""What gpu_check measured, for people: a table beside the model's predictions, and the aims that are met or missed.

usage: gpu_table.py RESULTS_FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import grid
from stages import lines_of

PREDICTIONS = Path(__file__).resolve().parents[1] / "results" / "gpu_predictions.json"
CUB = "peer: CUB SortPairs 64 bits + ReduceByKey f32"
COALESCE = "peer: torch coalesce"
DENSE = "peer: dense addition"


def predictions_of(path: Path) -> dict[tuple, dict]:
    return {
        grid.key_of(case): case for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
    }


class Results:
    """Measurements by case."""

    def __init__(self, folder: Path, predictions: dict[tuple, dict]) -> None:
        self.about = []
        self.cases: dict[tuple, list[dict]] = {}
        for path in (folder / "gpu_reduce.jsonl", *sorted(folder.glob("peer_*.jsonl"))):
            for line in lines_of(path):
                if line["kind"] == "reduce":
                    self.cases.setdefault(grid.key_of(line), []).append(
                        self._with_prediction(line, predictions)
                    )
                elif line["kind"] not in ("begin",):
                    self.about.append({"file": path.stem, **line})

    @staticmethod
    def _with_prediction(line: dict, predictions: dict[tuple, dict]) -> dict:
        case = predictions.get(grid.key_of(line), {})
        predicted = (
            case.get("end_to_end")
            if line.get("end_to_end")
            else case.get("plans", {}).get(line["plan"])
        )
        if predicted is None:
            return line
        line["predicted_ms"] = predicted
        if "ms" in line:
            line["times_of_predicted"] = line["ms"] / predicted
        return line

    def ms(self, case: grid.Case, plan: str) -> float | None:
        found = [m["ms"] for m in self.cases.get(case.key(), []) if m["plan"] == plan and "ms" in m]
        return min(found, default=None)

    def own(self, case: grid.Case) -> dict | None:
        """Our fastest plan on the device."""
        found = [
            m
            for m in self.cases.get(case.key(), [])
            if "ms" in m and not m["plan"].startswith("peer") and not m.get("end_to_end")
        ]
        return min(found, key=lambda m: m["ms"], default=None)

    def end_to_end(self, case: grid.Case) -> dict | None:
        found = [m for m in self.cases.get(case.key(), []) if m.get("end_to_end") and "ms" in m]
        return min(found, key=lambda m: m["ms"], default=None)


def describe(key: tuple) -> str:
    entries, rows, contributors, indices, in_order, width = key
    order = "sorted" if in_order else "unsorted"
    return f"{entries:.4g} entries of {width}, {rows:.4g} rows, {contributors} contributors, {indices}, {order}"


def describe_line(line: dict) -> str:
    name = line["plan"] + (
        " end to end, " + line.get("chosen", "") if line.get("end_to_end") else ""
    )
    if "ms" not in line:
        return f"  {name:50} {line.get('error', 'no result')}"
    text = f"  {name:50} {line['ms']:10.3f} ms"
    if "predicted_ms" in line:
        text += f"  model {line['predicted_ms']:8.3g} (x{line['times_of_predicted']:.2f})"
    for key, unit in (
        ("share_of_copy", "of the copy rate"),
        ("times_of_bus", "times the bus"),
        ("end_to_end_ms", "ms end to end"),
    ):
        if key in line:
            text += f"  {line[key]:.3g} {unit}"
    return text + ("  DIFFERS FROM THE FIRST PLAN" if line.get("same") is False else "")


def aims(results: Results) -> list[dict]:
    """What issue 4 asks for on one H200. `value` is None where something was not measured."""
    found = []

    def aim(what: str, needed: float, value: float | None, met: Callable[[float], bool]) -> None:
        state = "not measured" if value is None else "met" if met(value) else "missed"
        found.append({"aim": what, "needed": needed, "value": value, "state": state})

    def faster_than(case: grid.Case, peer: str) -> float | None:
        own, other = results.own(case), results.ms(case, peer)
        return other / own["ms"] if own and other else None

    in_order, out_of_order, rows = grid.quick()[:3]
    for what, case, peer, needed in (
        ("sorted, 1e8 in 1e9: times as fast as torch coalesce", in_order, COALESCE, 10),
        ("sorted, 1e8 in 1e9: times as fast as raw CUB", in_order, CUB, 4),
        ("unsorted, 1e8 in 1e9: times as fast as raw CUB", out_of_order, CUB, 3),
    ):
        aim(what, needed, faster_than(case, peer), lambda v, needed=needed: v >= needed)
    own = results.own(rows)
    aim("rows of 64: share of the copy rate", 0.7, own and own["share_of_copy"], lambda v: v >= 0.7)
    whole = results.end_to_end(in_order)
    aim("end to end: times of the bus", 1.1, whole and whole["times_of_bus"], lambda v: v <= 1.1)
    for case in grid.densities():
        density = case.entries / case.contributors / case.rows
        if density < 0.1:
            value = faster_than(case, DENSE)
            aim(f"density {density:g}: times as fast as dense addition", 1, value, lambda v: v >= 1)
    return found


def table(results: Results, met: list[dict]) -> str:
    text = [
        "Predictions are a model's, of one H200, written before anything was measured (bench/results/).",
        "",
    ]
    for aim in met:
        value = "-" if aim["value"] is None else f"{aim['value']:.3g}"
        text.append(f"{aim['state']:12}  {aim['aim']}: {value} (aim {aim['needed']:g})")
    text.append("")
    text.extend("  ".join(f"{k}={v}" for k, v in about.items()) for about in results.about)
    for key, lines in results.cases.items():
        text.extend(["", describe(key), *(describe_line(line) for line in lines)])
    return "\n".join(text) + "\n"


def write(folder: Path, predictions: Path = PREDICTIONS) -> str:
    """table.txt and results.json in `folder`; the former is the result."""
    results = Results(folder, predictions_of(predictions))
    met = aims(results)
    text = table(results, met)
    (folder / "table.txt").write_text(text, encoding="utf-8")
    measured = [line for lines in results.cases.values() for line in lines]
    whole = {"aims": met, "about": results.about, "measured": measured}
    (folder / "results.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return text


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
