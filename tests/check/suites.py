"""The suites of `./dev check`, in the order in which they run: what fails often and fast comes first."""

import dataclasses

STOPS = "200"
BORDER_UPDATES = "1000000"
BORDER_SERVED_UPDATES = "20000"
OPEN_ROUNDS = "10000"
THREAD_COUNTS = "8"
CONFORMANCE = (
    "cuda_emulated_conformance_test",
    "cuda_devices_conformance_test",
    "cpu_threads_test",
)
FUZZ_SECONDS = "60"
TASKS = 2000
TASK_WORKERS = 32
TREE_SEEDS = "100"
TREE_STEP_STRIDE = "1"
TREE_PROCESSES = "4"  # that test at a time: they wait half of their time

# What a build of C++ and its tests do not read. python/sparseagg/_proto is read by tests of the wire; it follows proto/.
PYTHON = (
    "python/sparseagg",
    "tests/python/*.py",
    "tests/python/run",
    "tests/check",
    "tests/fresh_machine",
    "tests/ops",
    "tests/tidy",
    "tests/wheel",
    "bench/*.py",
    "docs",
    "examples/*.py",
    "examples/browser",
    "examples/flower_app",
)

# What the programs and the package are not made of, and what no test of theirs reads.
TEST_PROGRAMS = ("*_test.cc", "tests/check")

NOT_IN_IMAGES = ("bench", "docs", "examples", "python", "tests")  # .dockerignore


@dataclasses.dataclass(frozen=True)
class Suite:
    """`commands` run one after the other at the top of the checkout; the first that fails ends the suite.

    `unread` are the sources that have no part in it, as git's patterns: its result stays when they change.
    """

    name: str
    size: str
    commands: tuple[tuple[str, ...], ...]
    environment: tuple[tuple[str, str], ...] = ()
    needs_root: bool = False
    unread: tuple[str, ...] = ()


def dev(*arguments: str) -> tuple[str, ...]:
    return ("./dev", *arguments)


SUITES = (
    Suite("lint", "every source: clang-format, clang-tidy, ruff", (dev("lint"),)),
    Suite(
        "test",
        "what CI runs, and all benchmarks compile",
        (dev("test"), dev("build", "dev", "submit_bench", "ingest_bench", "dense_bench")),
    ),
    Suite(
        "asan", "all C++ tests, AddressSanitizer and UBSan", (dev("test", "--asan"),), unread=PYTHON
    ),
    Suite("tsan", "all C++ tests, ThreadSanitizer", (dev("test", "--tsan"),), unread=PYTHON),
    Suite(
        "stops",
        f"{STOPS} starts and stops under each sanitizer",
        (dev("test", "--life-cycle", "asan"), dev("test", "--life-cycle", "tsan")),
        environment=(("SPARSEAGG_STOPS", STOPS),),
        unread=PYTHON,
    ),
    Suite(
        "borders",
        f"{int(BORDER_UPDATES):,} updates, {int(BORDER_SERVED_UPDATES):,} through a server",
        (
            dev("build", "dev", "borders_backends_test", "borders_service_test"),
            ("build/dev/bin/borders_backends_test",),
            ("build/dev/bin/borders_service_test",),
        ),
        environment=(
            ("SPARSEAGG_BORDER_UPDATES", BORDER_UPDATES),
            ("SPARSEAGG_BORDER_SERVED_UPDATES", BORDER_SERVED_UPDATES),
        ),
        unread=PYTHON,
    ),
    Suite(
        "trees",
        f"1, 2, 3 and 8 leaves, every type; kills at every step; {TREE_SEEDS} seeds of cut links",
        (
            dev("build", "dev", "sparseagg", "sparseagg_emulated"),
            ("tests/python/run", "--distro-only", "-n", TREE_PROCESSES, "-k", "trees"),
        ),
        environment=(
            ("SPARSEAGG_TREE_SEEDS", TREE_SEEDS),
            ("SPARSEAGG_TREE_STEP_STRIDE", TREE_STEP_STRIDE),
        ),
        needs_root=True,
        unread=TEST_PROGRAMS,
    ),
    Suite(
        "conformance",
        "every type on one to four emulated GPUs; 1 to 8 threads",
        (
            dev("build", "dev", *CONFORMANCE),
            *((f"build/dev/bin/{program}",) for program in CONFORMANCE),
        ),
        environment=(("SPARSEAGG_THREAD_COUNTS", THREAD_COUNTS),),
        unread=PYTHON,
    ),
    Suite(
        "footprint",
        f"{int(OPEN_ROUNDS):,} open rounds",
        (dev("build", "dev", "e2e_footprint_test"), ("build/dev/bin/e2e_footprint_test",)),
        environment=(("SPARSEAGG_OPEN_ROUNDS", OPEN_ROUNDS),),
        unread=PYTHON,
    ),
    Suite(
        "reliability",
        "10,000 disks, 1,300 kills, 10,000 simulations, 3,000 of trees",
        (dev("reliability"),),
        unread=PYTHON,
    ),
    Suite(
        "workers",
        f"{TASKS:,} tasks, {TASK_WORKERS} workers: one killed every second, the server every ten",
        (
            dev("build", "dev", "sparseagg"),
            ("tests/python/run", "--distro-only", "-s", "-k", "test_killed_workers"),
        ),
        environment=(
            ("SPARSEAGG_TASKS", str(TASKS)),
            ("SPARSEAGG_WORKERS", str(TASK_WORKERS)),
            ("SPARSEAGG_TASK_SECONDS", "1.5"),
            ("SPARSEAGG_KILLS_A_SERVER", "10"),
        ),
        unread=TEST_PROGRAMS,
    ),
    Suite("mutations", "every bug of tests/mutations", (dev("mutations"),), unread=PYTHON),
    Suite(
        "fuzz",
        f"{FUZZ_SECONDS} s a target",
        (dev("fuzz", "--seconds", FUZZ_SECONDS),),
        unread=PYTHON,
    ),
    Suite("arm64", "the core and the CPU back end in qemu", (dev("test-arm64"),), unread=PYTHON),
    Suite("frameworks", "the packages of PyPI", (dev("test-frameworks"),), unread=TEST_PROGRAMS),
    Suite(
        "versions",
        "Python 3.9 to 3.13, protobuf 3.20 to 7",
        (dev("test-frameworks", "versions"),),
        unread=TEST_PROGRAMS,
    ),
    Suite(
        "ops",
        "Prometheus, restarts, manifests, package, page",
        (dev("test-ops"),),
        unread=TEST_PROGRAMS,
    ),
    Suite(
        "container",
        "the CPU image, deployed and killed; compose; a tree with killed leaves",
        (("docker/test",), ("docker/compose_test",), ("docker/tree_test",)),
        needs_root=True,
        unread=NOT_IN_IMAGES,
    ),
    Suite(
        "wheel",
        "the wheels on Python 3.9 to 3.13 and on a bare Debian 12",
        (dev("wheel"), ("tests/wheel/run",)),
        needs_root=True,
        unread=TEST_PROGRAMS,
    ),
    Suite(
        "fresh",
        "./dev test and ./dev demo on a bare Debian 12",
        (("tests/fresh_machine/run", "--copy-host-config", "build/check/fresh_machine"),),
        needs_root=True,
    ),
)
