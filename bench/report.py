"""Prints benchmark results as tables: bench/report.py FILE...   (./dev bench calls it)

--stamp adds to each file what a number means nothing without: machine, commit, date.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def machine() -> dict:
    info = {"cores": os.cpu_count(), "cpu": platform.machine(), "system": platform.system()}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            info["cpu"] = value.strip()
        # Clouds hide the model; what decides most is whether there is AVX-512.
        if key.strip() == "flags":
            flags = value.split()
            info["vectors"] = (
                "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE"
            )
            break
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal"):
            info["memory_gb"] = round(int(line.split()[1]) / 1e6)
    release = platform.freedesktop_os_release()
    info["system"] = release.get("PRETTY_NAME", info["system"])
    return info


def commit() -> str:
    def git(*arguments: str) -> str:
        result = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True
        )
        return result.stdout.strip()

    changed = "+changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + changed


def json_of(value, indent: int = 0) -> str:
    """JSON with a line for each row: a list or object that holds no other is written on one line."""
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list) or not any(isinstance(i, dict | list) for i in items):
        return json.dumps(value)
    texts = [json_of(item, indent + 1) for item in items]
    begin, end = "[]"
    if isinstance(value, dict):
        begin, end = "{}"
        texts = [f"{json.dumps(name)}: {text}" for name, text in zip(value, texts)]
    gap = "\n" + " " * (indent + 1)
    return begin + gap + ("," + gap).join(texts) + "\n" + " " * indent + end


def stamp(path: pathlib.Path) -> None:
    report = json.loads(path.read_text())
    report["machine"] = machine()
    report["commit"] = commit()
    report["date"] = datetime.date.today().isoformat()
    path.write_text(json_of(report) + "\n")


def text_of(value) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def table(rows: list[dict]) -> list[str]:
    """Columns in the order of their first appearance; numbers to the right."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[text_of(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(map(len, [column, *values])) for column, *values in zip(columns, *cells)]
    numeric = [
        all(isinstance(row.get(column, 0), (int, float)) for row in rows) for column in columns
    ]

    def line(values):
        return "  ".join(
            value.rjust(width) if number else value.ljust(width)
            for value, width, number in zip(values, widths, numeric)
        ).rstrip()

    return [line(columns), line(["-" * width for width in widths]), *map(line, cells)]


def render(report: dict) -> str:
    lines = [report.get("benchmark", "benchmark")]
    about = report.get("machine")
    if about:
        lines.append(
            f"{about['cpu']} {about.get('vectors', '')}".strip()
            + f", {about['cores']} cores, {about.get('memory_gb', '?')} GB, {about['system']}"
        )
        lines.append(f"commit {report.get('commit')}, {report.get('date')}")
    if "read_gb_s" in report:
        reads = (f"{rate:.1f} GB/s with {count}" for count, rate in report["read_gb_s"].items())
        lines.append(f"memory reads at {', '.join(reads)} threads")
    if "rows" in report:
        lines += ["", *table(report["rows"])]
    for title, rows in report.get("tables", {}).items():
        if rows:
            lines += ["", f"-- {title}", *table(rows)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument(
        "--stamp", action="store_true", help="add machine, commit and date to the files"
    )
    options = parser.parse_args()
    for path in options.files:
        if options.stamp:
            stamp(path)
        print(f"\n{render(json.loads(path.read_text()))}")


if __name__ == "__main__":
    main()
