"""Times and bytes by kernel: runs a program under Nsight Compute once, and reads what that wrote."""

from __future__ import annotations

import collections
import csv
import re
from pathlib import Path

# In one pass, so that no kernel runs twice.
METRICS = {
    "gpu__time_duration.sum": "ns",
    "dram__bytes_read.sum": "read",
    "dram__bytes_write.sum": "written",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps_percent",
}
UNITS = {
    "nsecond": 1,
    "ns": 1,
    "usecond": 1e3,
    "us": 1e3,
    "msecond": 1e6,
    "ms": 1e6,
    "second": 1e9,
    "s": 1e9,
}
UNITS |= {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def command(program: list, output: Path) -> list:
    """Records what the program does between StartProfile() and StopProfile() (gpu_peers.h), at the clocks as they are."""
    options = [
        "--metrics",
        ",".join(METRICS),
        "--clock-control",
        "none",
        "--profile-from-start",
        "off",
    ]
    options += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", output]
    return ["ncu", *options, *program]


def short(name: str) -> str:
    """A kernel's functor, or its own name: without return type, namespaces and arguments."""
    name = re.sub(r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::", "", name)
    name = re.sub(r"\b\w+::", "", name.removeprefix("void ")).split("(")[0]
    found = re.match(r"ForEach(?:Block)?Kernel<(.*)>$", name)
    return (found.group(1) if found else name)[:60]


def number(text: str, unit: str) -> float:
    return float(text.replace(",", "") or 0) * UNITS.get(unit, 1)


def rows_of(path: Path) -> list[dict]:
    """One for each launch: name and metrics. Either of ncu's two layouts: a column, or a line for each metric."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace").splitlines()
    begin = next((i for i, line in enumerate(text) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    table = list(csv.DictReader(text[begin:]))
    launches: dict[str, dict] = collections.OrderedDict()
    units = table[0] if table and not table[0]["ID"] else {}
    for row in table:
        if not row["ID"].isdigit():
            continue
        launch = launches.setdefault(row["ID"], {"kernel": short(row["Kernel Name"])})
        if "Metric Name" in row:
            row = {row["Metric Name"]: row["Metric Value"], "unit": row["Metric Unit"]}
        for metric, name in METRICS.items():
            if row.get(metric):
                launch[name] = number(row[metric], row.get("unit", units.get(metric, "")))
    return list(launches.values())


def by_kernel(path: Path) -> list[dict]:
    """For each kernel, the one that takes longest first: launches, ms, bytes, GB/s, and warps over time."""
    sums: dict[str, dict] = {}
    for launch in rows_of(path):
        one = sums.setdefault(
            launch["kernel"], {"launches": 0, "ms": 0.0, "read": 0.0, "written": 0.0, "warps": 0.0}
        )
        ms = launch.get("ns", 0) / 1e6
        one["launches"] += 1
        one["ms"] += ms
        one["read"] += launch.get("read", 0)
        one["written"] += launch.get("written", 0)
        one["warps"] += launch.get("warps_percent", 0) * ms
    found = []
    for kernel, one in sums.items():
        ms = one["ms"]
        found.append(
            {
                "kernel": kernel,
                "launches": one["launches"],
                "ms": round(ms, 4),
                "mb_read": round(one["read"] / 1e6, 2),
                "mb_written": round(one["written"] / 1e6, 2),
                "gb_s": round((one["read"] + one["written"]) / ms / 1e6, 1) if ms else 0,
                "warps_percent": round(one["warps"] / ms, 1) if ms else 0,
            }
        )
    return sorted(found, key=lambda one: -one["ms"])
