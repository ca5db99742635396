"""Tables from the reports of run.py: an overview, the planner's choices, what was promised and what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import cases

RATIO_MAX = 1.15  # of the planner's choice to the best plan
MEMORY_SLACK_BYTES = 256 << 20
# The sparse ways of the libraries.
SPARSE_PEERS = (
    "numpy unique",
    "numpy argsort",
    "scipy",
    "torch coalesce",
    "tensorflow",
    "pandas",
    "polars",
    "Eigen",
)
DENSE_PEERS = ("naive dense", "numpy bincount", "numpy total", "torch index_add_")

Report = dict  # of one case, as contest.run_case gives it


def _find(report: Report, threads: int, form: str, ending: str) -> dict | None:
    """The row of the preferred back end: "/auto", or "/" and a plan."""
    for row in report.get("rows", []):
        matches = row["own"] and row["contender"].endswith(ending)
        if matches and row["threads"] == threads and row["form"] == form and "seconds" in row:
            return row
    return None


def _auto(report: Report, threads: int, form: str = "batch") -> dict | None:
    return _find(report, threads, form, "/auto")


def _fastest(rows: list[dict]) -> dict | None:
    """Whatever number of threads it takes."""
    timed = [row for row in rows if not row["own"] and "seconds" in row]
    return min(timed, key=lambda row: row["seconds"], default=None)


def _sparse_peer(report: Report, names: tuple[str, ...] = ()) -> dict | None:
    """The fastest that holds no array over the index space; of `names`, or of all."""
    return _fastest(
        [
            row
            for row in report.get("rows", [])
            if not row["contender"].startswith(DENSE_PEERS)
            and (not names or row["contender"].startswith(names))
        ]
    )


def _dense_peer(report: Report) -> dict | None:
    rows = report.get("rows", [])
    return _fastest([row for row in rows if row["contender"].startswith(DENSE_PEERS)])


def overview(reports: list[Report], threads: int) -> list[dict]:
    """One row a case: the planner's choice in its forms, and the fastest peers."""
    rows = []
    for report in reports:
        auto, alone = _auto(report, threads), _auto(report, 1)
        stream = _auto(report, threads, "stream")
        row = {"case": report["case"]}
        if auto:
            row["plan"] = auto["plan"]
            row["ns"] = auto["ns_entry"]
            if alone and threads > 1:
                row["ns_1_thread"] = alone["ns_entry"]
                row["speed_up"] = alone["seconds"] / auto["seconds"]
            if stream:
                row["ns_stream"] = stream["ns_entry"]
            row["limit_percent"] = auto.get("limit_percent", 0.0)
            row["peak_mb"] = auto["peak_bytes"] / 1e6
            for name, peer in (
                ("sparse_peer", _sparse_peer(report)),
                ("dense_peer", _dense_peer(report)),
            ):
                if peer:
                    row[name] = f"{peer['contender']} ({peer['threads']})"
                    row["x_" + name] = peer["seconds"] / auto["seconds"]
        else:
            row["plan"] = report.get("skipped", "no result")
        rows.append(row)
    return rows


def planner(reports: list[Report]) -> list[dict]:
    """For each case, form and number of threads: the chosen plan against the best forced one.

    What is the same code has one time, the median of all of its runs: the chosen plan, forced and not, and plans under
    two names. Where a point was measured again (contest.py), the later runs alone count, and `first_ratio` is that of
    the earlier ones.
    """
    rows = []
    for report in reports:
        for auto in report.get("rows", []):
            if not auto["contender"].endswith("/auto") or "seconds" not in auto:
                continue
            point = _choice(auto, report["rows"])
            if point is None:
                continue
            again = _at(report.get("again", []), auto)
            later = next((row for row in again if row["contender"] == auto["contender"]), None)
            if later is not None:
                point = {**_choice(later, again), "first_ratio": point["ratio"]}
            flag = "<<<" if point["ratio"] > RATIO_MAX else ""
            rows.append({"case": report["case"], **point, "flag": flag})
    return rows


def _at(rows: list[dict], auto: dict) -> list[dict]:
    """Of rows those of the back end, the number of threads and the form of `auto` that have run."""
    backend = auto["contender"].removesuffix("auto")
    return [
        row
        for row in rows
        if row["contender"].startswith(backend)
        and (row["threads"], row["form"]) == (auto["threads"], auto["form"])
        and "runs" in row
    ]


def _choice(auto: dict, rows: list[dict]) -> dict | None:
    """The planner's choice among rows, of which those of other places are ignored; None where there is no other plan."""
    forced = [row for row in _at(rows, auto) if row["contender"] != auto["contender"]]
    if not forced:
        return None
    runs: dict[str, list[float]] = {}
    names = _plans_of([*forced, auto])
    for row in [*forced, auto]:
        runs.setdefault(names[row["plan"]], []).extend(row["runs"])
    seconds = {plan: statistics.median(times) for plan, times in runs.items()}
    chosen = names[auto["plan"]]
    best = min(seconds, key=seconds.__getitem__)
    return {
        "threads": auto["threads"],
        "form": auto["form"],
        "chosen": auto["plan"],
        "ms": seconds[chosen] * 1e3,
        "predicted_ms": auto["predicted_seconds"] * 1e3,
        "best": best,
        "best_ms": seconds[best] * 1e3,
        "ratio": seconds[chosen] / seconds[best],
    }


def _plans_of(rows: list[dict]) -> dict[str, str]:
    """For each plan the first that is the same code: their predictions are a nanosecond apart, or not at all.

    `rows` is whichever of `sweep` and `partition` is cheaper, made a nanosecond better or worse to have the wide rows
    or not (cpu/cost_model.cc).
    """
    first: dict[str, str] = {}
    predicted: dict[str, float] = {}
    for row in rows:
        plan, seconds = row["plan"], row["predicted_seconds"]
        same = (other for other, time in predicted.items() if abs(time - seconds) < 1.5e-9)
        first.setdefault(plan, next(same, plan))
        predicted.setdefault(plan, seconds)
    return first


def claims(reports: list[Report], crossovers: list[dict], threads: int) -> list[dict]:
    """What is promised, where this run has measured it: {"claim", "case", "measured", "bound", "kept"}."""
    by_case = {report["case"]: report for report in reports}
    rows = [
        *_headline(by_case, threads),
        *_small_spaces(by_case, threads),
        *_wide_rows(reports, threads),
        *_hostile(by_case, threads),
        *_memory(reports),
        *_density(crossovers, threads),
    ]
    choices = planner(reports)
    if choices:
        worst = max(choices, key=lambda row: row["ratio"])
        where = f"{worst['case']}, {worst['threads']} threads, {worst['form']}"
        rows.append(
            _claim("planner's choice over best plan, worst", where, worst["ratio"], RATIO_MAX, "<=")
        )
    return rows


def _claim(claim: str, case: str, measured: float, bound: float, sign: str) -> dict:
    kept = measured <= bound if sign == "<=" else measured >= bound
    return {
        "claim": claim,
        "case": case,
        "measured": measured,
        "bound": f"{sign} {bound:g}",
        "kept": "yes" if kept else "NO",
    }


def _headline(by_case: dict, threads: int) -> Iterator[dict]:
    for case, ns_max, peers_min in zip(cases.HEADLINE, (3, 6), (20, 12)):
        report = by_case.get(case.name, {})
        auto, alone = _auto(report, threads), _auto(report, 1)
        peer = _sparse_peer(report, SPARSE_PEERS)
        if not auto:
            continue
        yield _claim("ns an entry", case.name, auto["ns_entry"], ns_max, "<=")
        if peer:
            what = f"times {peer['contender']}, the best sparse peer"
            yield _claim(what, case.name, peer["seconds"] / auto["seconds"], peers_min, ">=")
        if alone and threads > 1:
            what = f"{threads} threads over one"
            yield _claim(what, case.name, alone["seconds"] / auto["seconds"], 1.7, ">=")


def _small_spaces(by_case: dict, threads: int) -> Iterator[dict]:
    for case in cases.PEERS:
        report = by_case.get(case.name, {})
        auto = _auto(report, threads)
        if not auto or case.space != 10**6 or case.width != 1 or case.entries < 10**6:
            continue
        # The first leaves an array, the second the same kind of result as ours.
        for way in ("torch index_add_", "torch index_add_, nonzero"):
            peer = _fastest([row for row in report["rows"] if row["contender"] == way])
            if peer:
                factor = peer["seconds"] / auto["seconds"]
                yield _claim(f"times {way}", case.name, factor, 3, ">=")


def _wide_rows(reports: list[Report], threads: int) -> Iterator[dict]:
    for report in reports:
        auto = _auto(report, threads)
        if auto and report["shape"]["width"] == 64 and "limit_percent" in auto:
            what = "percent of the memory's bandwidth"
            yield _claim(what, report["case"], auto["limit_percent"], 60, ">=")


def _hostile(by_case: dict, threads: int) -> Iterator[dict]:
    for case in cases.HOSTILE:
        ordinary = cases.ordinary_of(case)
        auto = _auto(by_case.get(case.name, {}), threads)
        base = _auto(by_case.get(ordinary.name, {}), threads) if ordinary else None
        if auto and base:
            factor = auto["seconds"] / base["seconds"]
            yield _claim("time over that of ordinary values", case.name, factor, 10, "<=")


def _memory(reports: list[Report]) -> Iterator[dict]:
    """The case that comes closest to its bound; and for streams the one that holds most beside its result."""
    batch = [
        (row["peak_bytes"] - row["input_bytes"] - 1.25 * row["output_bytes"], report["case"])
        for report in reports
        for row in report.get("rows", [])
        if row["contender"].endswith("/auto") and row["form"] == "batch" and "seconds" in row
    ]
    if batch:
        what = "batch: peak MB beyond input + 1.25 * output, worst"
        yield _claim(what, max(batch)[1], max(batch)[0] / 1e6, MEMORY_SLACK_BYTES / 1e6, "<=")
    for report in reports:
        row = _auto(report, 1, "stream")
        if row and report["shape"]["entries"] >= 10**7:
            beyond = (row["peak_bytes"] - 1.25 * row["output_bytes"]) / 1e6
            what = "stream: peak MB beyond 1.25 * output"
            yield _claim(what, report["case"], beyond, MEMORY_SLACK_BYTES / 1e6, "<=")


def _density(crossovers: list[dict], threads: int) -> Iterator[dict]:
    for report in crossovers:
        for row in report["summary"]:
            if row["threads"] == threads and "worst_ratio" in row:
                where = f"{row['contributors']} x {row['values']}"
                what = "time over numpy's dense adds, worst density"
                yield _claim(what, where, row["worst_ratio"], 1.1, "<=")
