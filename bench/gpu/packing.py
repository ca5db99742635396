"""Builds the programs of gpu_check, and packs them for a machine with nothing but a GPU, its driver and Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACK = ROOT / "build" / "gpu_check"
PROGRAMS = (
    "cuda_gpu_conformance_test",
    "cuda_gpu_plans_test",
    "cuda_device_numerics_test",
    "gpu_reduce",
)
SERVER = "sparseagg"
SCRIPTS = ("gpu_check", "*.py")
# That of Debian 12, which builds: a program that needs a newer one would start on no older machine.
GLIBC_MAX = (2, 36)


def build(architectures: str, jobs: int, libraries: Path | None) -> Path:
    """With the server where there are static versions of its libraries (packaging/static_libraries)."""
    folder = ROOT / "build" / "gpu"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DSPARSEAGG_CUDA=ON", "-DSPARSEAGG_STATIC_DEPS=ON"]
    options.append("-DSPARSEAGG_WERROR=OFF")  # another compiler may have other warnings
    options.append(f"-DCMAKE_CUDA_ARCHITECTURES={architectures}")
    # Lines of the source for ncu and compute-sanitizer; no other instruction.
    options.append("-DCMAKE_CUDA_FLAGS=-lineinfo")
    options.append(f"-DSPARSEAGG_SERVER={'ON' if libraries else 'OFF'}")
    if libraries:
        options.append(f"-DCMAKE_PREFIX_PATH={libraries.resolve()}")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *generator, *options], check=True)
    targets = [*PROGRAMS, *([SERVER] if libraries else [])]
    subprocess.run(["cmake", "--build", folder, f"-j{jobs}", "--target", *targets], check=True)
    return folder / "bin"


def libraries_of(program: Path) -> list[str]:
    """Those that are not the C library's."""
    said = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    names = (line.split()[0] for line in said.splitlines())
    own = r"(linux-vdso|/lib.*/ld-linux.*|ld-linux.*|lib(c|m|dl|rt|pthread))\.so.*"
    return [name for name in names if not re.fullmatch(own, name)]


def glibc_of(program: Path) -> tuple[int, ...]:
    """The newest version of the C library that it needs."""
    said = subprocess.run(["objdump", "-T", program], check=True, capture_output=True, text=True)
    return max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", said.stdout))


def commit() -> str:
    """What is checked out, or "unknown"."""
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def collect(binaries: Path, old: Path | None = None, results: Path | None = None) -> None:
    """Copies the programs to where they are run, and beside them what a second call needs of the first. `old` may be what was
    packed before."""
    kept = {}
    if old is not None:
        kept["old/gpu_reduce"] = (old / "gpu_reduce").read_bytes()
    if results is not None:
        kept["first/stages.json"] = (results / "stages.json").read_bytes()
    kept["commit.txt"] = f"{commit()}\n".encode()
    shutil.rmtree(PACK, ignore_errors=True)
    PACK.mkdir(parents=True)
    for name in (*PROGRAMS, SERVER):
        if not (binaries / name).exists():
            if name == SERVER:
                continue
            raise SystemExit(f"{binaries / name} is missing")
        shutil.copy2(binaries / name, PACK / name)
        if shutil.which("strip"):  # the host's debug information; that of kernels is another's
            subprocess.run(["strip", "-g", PACK / name], check=True)
    for name, content in kept.items():
        path = PACK / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        if path.name in PROGRAMS:
            path.chmod(0o755)


def archive() -> tuple[Path, list[str]]:
    """The archive, which looks like a checkout, and what is to be said of it."""
    path = PACK.with_suffix(".tar.gz")
    said = []
    for program in sorted(PACK.iterdir()):
        if program.name not in (*PROGRAMS, SERVER):
            continue
        glibc = glibc_of(program)
        if libraries_of(program) or glibc > GLIBC_MAX:
            raise SystemExit(f"{program} needs {libraries_of(program)}, glibc {glibc}")
        version = ".".join(map(str, glibc))
        said.append(f"{program.name}: {program.stat().st_size / 1e6:.1f} MB, glibc {version}")
    with tarfile.open(path, "w:gz", compresslevel=6) as tar:
        tar.add(PACK, "gpu_check/build/gpu_check")
        for pattern in SCRIPTS:
            for script in sorted((ROOT / "bench/gpu").glob(pattern)):
                tar.add(script, f"gpu_check/bench/gpu/{script.name}")
        predictions = "bench/results/gpu_predictions.json"
        tar.add(ROOT / predictions, f"gpu_check/{predictions}")
    unpacked = sum(file.stat().st_size for file in PACK.rglob("*") if file.is_file())
    said.append(f"{path}: {path.stat().st_size / 1e6:.1f} MB, unpacked {unpacked / 1e6:.1f} MB")
    if not (PACK / SERVER).exists():
        said.append("without the server: pass --static-libraries (packaging/static_libraries)")
    return path, said
