"""What gpu_check measured, for people: a table beside the model's predictions, a summary of one page, and the aims that are
met or missed.

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
# A reader who sees only the end of a log must see all of the summary.
SUMMARY_BYTES_MAX = 9500
# A prediction that is further off is to be explained.
WRONG = 1.5


def predictions_of(path: Path) -> dict[tuple, dict]:
    return {
        grid.case_of(case).key(): case
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
    }


class Results:
    """The lines of a run, each with the stage that it is of."""

    def __init__(self, folder: Path, predictions: dict[tuple, dict]) -> None:
        self.lines = []
        stage = ""
        for line in lines_of(folder / "lines.jsonl"):
            if line["kind"] == "stage":
                stage = line["stage"]
            else:
                self.lines.append({"stage": stage, **line})
        self.reduced = self.of_kind("reduce")
        for line in self.reduced:
            self._predict(line, predictions)
        self._compare()
        path = folder / "stages.json"
        self.stages = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []

    def of_kind(self, kind: str) -> list[dict]:
        return [line for line in self.lines if line["kind"] == kind]

    @staticmethod
    def _predict(line: dict, predictions: dict[tuple, dict]) -> None:
        case = predictions.get(grid.case_of(line).key(), {})
        predicted = {**case.get("plans", {}), grid.END_TO_END: case.get("end_to_end")}.get(
            line["plan"]
        )
        if predicted is not None:
            line["predicted_ms"] = predicted
            if "ms" in line:
                line["times_of_predicted"] = line["ms"] / predicted

    def _compare(self) -> None:
        """Says of each run whether its digest is the right one: the CPU's, or that of the first of our own plans."""
        trusted = (grid.REFERENCE, *grid.OURS)
        for lines in self.by_case().values():
            found = [line for line in lines if line["plan"] in trusted and "digest" in line]
            if not found:
                continue
            right = min(found, key=lambda line: trusted.index(line["plan"]))["digest"]
            for line in lines:
                if "digest" in line:
                    line["same"] = line["digest"] == right

    def by_case(self) -> dict[tuple, list[dict]]:
        cases: dict[tuple, list[dict]] = {}
        for line in self.reduced:
            cases.setdefault(grid.case_of(line).key(), []).append(line)
        return cases

    def different(self) -> list[dict]:
        return [line for line in self.reduced if line.get("same") is False]

    def best(self, case: grid.Case, *plans: str, stage: str = "") -> dict | None:
        """The fastest measurement; of one stage, or of all but those of older programs."""
        found = [
            line
            for line in self.reduced
            if line["plan"] in plans
            and "ms" in line
            and grid.case_of(line) == case
            and (line["stage"] == stage if stage else not line["stage"].startswith("old"))
        ]
        return min(found, key=lambda line: line["ms"], default=None)


def times(line: dict | None, other: dict | None) -> float | None:
    """Returns how many times as fast the first one is."""
    return other["ms"] / line["ms"] if line and other else None


def aims(results: Results, scale: float = 1) -> list[dict]:
    """What is asked for on one H100 or H200, by ratio in one run. `value` is None where something was not measured."""
    found = []

    def aim(what: str, needed: float, value: float | None, met: Callable[[float], bool]) -> None:
        state = "not measured" if value is None else "met" if met(value) else "missed"
        found.append({"aim": what, "needed": needed, "value": value, "state": state})

    def at_least(what: str, needed: float, value: float | None) -> None:
        aim(what, needed, value, lambda v: v >= needed)

    canonical, unsorted, rows = (case.scaled(scale) for case in grid.DECISIVE)
    for name, case, cub, coalesce in (
        ("canonical", canonical, 8, 20),
        ("unsorted", unsorted, 3, 10),
    ):
        own = results.best(case, *grid.OURS)
        at_least(
            f"{name}, 1e8 in 1e9: times as fast as raw CUB",
            cub,
            times(own, results.best(case, grid.CUB)),
        )
        other = results.best(case, grid.COALESCE)
        at_least(
            f"{name}, 1e8 in 1e9: times as fast as torch coalesce", coalesce, times(own, other)
        )
    own = results.best(rows, grid.ROUNDED)
    at_least(
        "rows of 64: share of the measured copy bandwidth", 0.7, own and own.get("share_of_copy")
    )
    whole = results.best(canonical, grid.END_TO_END)
    aim(
        "end to end: times of the bus", 1.1, whole and whole.get("times_of_bus"), lambda v: v <= 1.1
    )
    for case in grid.densities():
        if grid.density_of(case) < 0.1:
            own = results.best(case.scaled(scale), *grid.OURS)
            dense = results.best(case.scaled(scale), grid.DENSE)
            what = f"density {grid.density_of(case):g}: times as fast as dense addition"
            at_least(what, 1, times(own, dense))
    return found


def describe(key: tuple) -> str:
    entries, rows, contributors, indices, in_order, width = key
    order = "sorted" if in_order else "unsorted"
    return f"{entries:.4g} entries of {width}, {rows:.4g} rows, {contributors} contributors, {indices}, {order}"


def describe_line(line: dict) -> str:
    name = line["plan"] + (f" ({line['chosen']})" if "chosen" in line else "")
    text = f"  {name:28}"
    if "ms" in line:
        text += f" {line['ms']:10.3f} ms"
    else:
        text += f" {str(line.get('error', 'works'))[:100]}"
    if "times_of_predicted" in line:
        ratio = line["times_of_predicted"]
        text += f"  model {line['predicted_ms']:.3g} (x{ratio:.2f}{'' if 1 / WRONG <= ratio <= WRONG else ' EXPLAIN'})"
    if "share_of_copy" in line:
        text += f"  {100 * line['share_of_copy']:.0f} % of copy"
    if "times_of_bus" in line:
        text += f"  {line['times_of_bus']:.2f} x bus"
    return text + ("  DIFFERS" if line.get("same") is False else "")


def describe_aim(aim: dict) -> str:
    value = "-" if aim["value"] is None else f"{aim['value']:.3g}"
    return f"{aim['state']:12}  {aim['aim']}: {value} (aim {aim['needed']:g})"


def describe_device(results: Results) -> list[str]:
    text = [
        f"{line['call']} call, commit {line['commit']}, {line['machine']}"
        for line in results.of_kind("about")
    ]
    for line in results.of_kind("device")[:1]:
        text.append(
            f"{line['name']}, {line['memory_bytes'] >> 30} GiB, {line['multiprocessors']} multiprocessors"
        )
    for line in results.of_kind("calibration")[:1]:
        text.append(
            f"copy {line['copy_gb_s']:.0f} GB/s, to the device {line['to_device_gb_s']:.1f}, to the host "
            f"{line['to_host_gb_s']:.1f}" + ("" if line["ok"] else f"; REFUSED: {line['message']}")
        )
    return text


def describe_stages(results: Results) -> list[str]:
    bad = [s for s in results.stages if s["state"] not in ("passed", "nothing to do")]
    seconds = results.stages[-1]["at"] if results.stages else 0
    text = [
        f"stages: {len(results.stages) - len(bad)} of {len(results.stages)} passed, {seconds:.0f} s"
    ]
    text.extend(
        f"  {s['stage']}: {s['state']}, {s['seconds']} s  {s.get('said', '')[:110]}".rstrip()
        for s in bad
    )
    text.extend(
        f"  LOST {line['plan']}, {describe(grid.case_of(line).key())}: {line['error']}"
        for line in results.of_kind("lost")
    )
    different: dict[str, list[dict]] = {}
    for line in results.different():
        different.setdefault(line["plan"], []).append(line)
    for plan, lines in different.items():
        case = describe(grid.case_of(lines[0]).key())
        text.append(f"  DIFFERS {plan}: {len(lines)} times, first {case}")
    return text


def describe_decisive(results: Results, scale: float) -> list[str]:
    text = []
    for case in grid.DECISIVE:
        lines = [
            line
            for line in results.by_case().get(case.scaled(scale).key(), [])
            if not line["stage"].startswith("old") and ("ms" in line or "error" in line)
        ]
        text.extend([describe(case.key()), *(describe_line(line) for line in lines)])
    return text


def describe_densities(results: Results, scale: float) -> list[str]:
    """Ours in ms, over dense addition."""
    text = []
    for case in grid.densities():
        dense = results.best(case.scaled(scale), grid.DENSE)
        own = results.best(case.scaled(scale), *grid.OURS)
        if dense and own:
            text.append(
                f"  {grid.density_of(case):<7g} {own['plan']:18} {own['ms']:8.3f} ms, dense {dense['ms']:8.3f} ms: "
                f"x{dense['ms'] / own['ms']:.2f}"
            )
    return ["density: ours and dense addition", *text] if text else []


def describe_comparison(results: Results, scale: float) -> list[str]:
    text = []
    for case in grid.DECISIVE:
        for plan in (*grid.OURS, grid.END_TO_END):
            pair = [results.best(case.scaled(scale), plan, stage=stage) for stage in ("old", "new")]
            if all(pair):
                old, new = (line["ms"] for line in pair)
                text.append(
                    f"  {plan:18} {old:9.3f} -> {new:9.3f} ms  x{old / new:.2f}  {describe(case.key())}"
                )
    return ["old and new programs in turn", *text] if text else []


def describe_kernels(results: Results) -> list[str]:
    text = []
    for line in results.of_kind("kernels"):
        whole = sum(kernel["ms"] for kernel in line["kernels"])
        text.append(
            f"{line['plan']}, {describe(grid.case_of(line).key())}: {whole:.3f} ms in kernels"
        )
        text.extend(
            f"  {k['kernel'][:44]:44} {k['launches']:4}x {k['ms']:8.3f} ms  {k['mb_read'] + k['mb_written']:8.0f} MB "
            f"{k['gb_s']:6.0f} GB/s  warps {k['warps_percent']:3.0f} %"
            for k in line["kernels"][:6]
        )
    return text


def describe_servers(results: Results) -> list[str]:
    text = []
    for line in results.of_kind("server"):
        if "gb_s" not in line:
            text.append(f"  {line['backend']:5} {line['error'][:120]}")
            continue
        text.append(
            f"  {line['backend']:5} {line['entries']:.3g} of {line['width']}, {line['connections']:2} connections: "
            f"{line['gb_s']:.3f} GB/s, {line['cpu_seconds_per_gb']:.2f} CPU s/GB, sealed to published "
            f"{line['seal_ms']:.1f} ms{'' if line['exact'] else ', WRONG SUM'}"
        )
    return ["server", *text] if text else []


def summary(results: Results, met: list[dict], scale: float) -> str:
    """One page. The aims are last, and never cut."""
    last = ["", "aims", *(describe_aim(aim) for aim in met)]
    room = SUMMARY_BYTES_MAX - len("\n".join(last).encode())
    sections = (
        describe_device(results),
        describe_stages(results),
        describe_decisive(results, scale),
        describe_comparison(results, scale),
        describe_densities(results, scale),
        describe_servers(results),
        describe_kernels(results),
    )
    text = []
    for section in sections:
        for line in section:
            room -= len(line.encode()) + 1
            if room > 40:
                text.append(line)
    if room <= 40:
        text.append("... more in table.txt")
    return "\n".join([*text, *last]) + "\n"


def table(results: Results, met: list[dict]) -> str:
    text = [
        "Predictions are a model's, of one H200, written before anything was measured (bench/results/).",
        "",
        *(describe_aim(aim) for aim in met),
        "",
        *(
            "  ".join(f"{k}={v}" for k, v in line.items())
            for kind in ("about", "device", "calibration")
            for line in results.of_kind(kind)
        ),
        *describe_stages(results),
        *describe_servers(results),
        *describe_kernels(results),
    ]
    for key, lines in results.by_case().items():
        text.extend(
            ["", describe(key), *(f"{describe_line(line)}  [{line['stage']}]" for line in lines)]
        )
    return "\n".join(text) + "\n"


def write(folder: Path, predictions: Path = PREDICTIONS, scale: float = 1) -> str:
    """table.txt, summary.txt and results.json in `folder`; the summary is the result."""
    results = Results(folder, predictions_of(predictions))
    met = aims(results, scale)
    text = summary(results, met, scale)
    (folder / "summary.txt").write_text(text, encoding="utf-8")
    (folder / "table.txt").write_text(table(results, met), encoding="utf-8")
    whole = {"aims": met, "stages": results.stages, "lines": results.lines}
    (folder / "results.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return text


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
