"""What the tidy test enforces, as data. A change of a rule is a change of the design: say why in docs/decisions/."""

# What an #include line can name, by regular expression of its path; the first match decides. A path that matches
# nothing is an error: name the library here and in docs/decisions/0001-dependencies.md.
LIBRARIES = [
    # Own folders. Generated protocol code and the conversions in proto/ are different things.
    ("proto/generated", r"(sparseagg/v\d+|google/rpc|grpc/health/v1)/\w+\.pb\.h"),
    ("proto/grpc", r"(sparseagg/v\d+|google/rpc|grpc/health/v1)/\w+\.grpc\.pb\.h"),
    (
        "installed client",
        r"sparseagg/(base|client|sparse)/.*",
    ),  # as find_package(sparseagg) offers it
    ("base", r"base/.*"),  # errors with reasons, memory of the host
    ("sparse/encodings", r"sparse/encodings/.*"),
    ("sparse/partials", r"sparse/partials/.*"),
    ("sparse", r"sparse/.*"),
    ("cpu/state", r"cpu/state/.*"),
    ("cpu/kernels", r"cpu/kernels/.*"),
    ("cpu/windowed", r"cpu/windowed/.*"),
    ("cpu/dense", r"cpu/dense/.*"),
    ("cpu", r"cpu/.*"),
    ("cuda", r"cuda/.*"),
    ("proto", r"proto/.*"),
    ("service/store", r"service/store/.*"),
    ("service/engine/memory", r"service/engine/memory/.*"),
    ("service/engine/partial", r"service/engine/partial/.*"),
    ("service/engine/ingest", r"service/engine/ingest/.*"),
    ("service/engine/upload", r"service/engine/upload/.*"),
    ("service/engine/result", r"service/engine/result/.*"),
    ("service/engine/recovery", r"service/engine/recovery/.*"),
    ("service/engine/round", r"service/engine/round/.*"),
    ("service/engine", r"service/engine/.*"),
    ("service/tasks", r"service/tasks/.*"),
    ("service/audit", r"service/audit/.*"),
    ("service/auth", r"service/auth/.*"),
    ("service/telemetry", r"service/telemetry/.*"),
    ("service/rpc", r"service/rpc/.*"),
    ("service/tree", r"service/tree/.*"),
    ("service/admin", r"service/admin/.*"),
    ("service/http", r"service/http/.*"),
    ("service/config", r"service/config/.*"),
    ("service/commands", r"service/commands/.*"),
    ("service", r"service/[^/]+"),
    ("client/cli", r"client/cli/.*"),
    ("client", r"client/.*"),
    ("bench", r"bench/.*"),
    ("tests", r"tests/.*"),
    ("python/native", r"python/native/.*"),
    # Libraries.
    ("absl/thread", r"absl/synchronization/.*"),
    ("absl", r"absl/.*"),
    ("grpc", r"(grpc|grpcpp|grpc\+\+)/.*"),
    ("protobuf", r"google/protobuf/.*"),
    ("tbb", r"(oneapi/)?tbb(/.*|\.h)"),
    ("highway", r"hwy/.*"),
    ("eigen", r"Eigen/.*"),
    (
        "cuda_runtime",
        r"(cuda_runtime(_api)?|cuda_profiler_api|cuda|driver_types|cuda_fp16|cuda_bf16|vector_types)\.h",
    ),
    ("cub", r"(cub|thrust|cuda/std|cuda/functional|nv)/.*|cusparse\.h"),
    ("openssl", r"openssl/.*"),
    ("isa-l", r"isa-l/.*"),
    ("spdlog", r"spdlog/.*"),
    ("prometheus", r"prometheus/.*"),
    ("http", r"httplib\.h"),
    ("beast", r"boost/(asio|beast)/.*"),
    ("allocator", r"gperftools/malloc_extension\.h"),
    ("profiler", r"gperftools/profiler\.h"),
    ("cli11", r"CLI/.*"),
    ("json", r"nlohmann/.*"),
    ("zip", r"zip\.h|zlib\.h|zconf\.h"),
    ("sqlite", r"sqlite3\.h"),
    ("gtest", r"(gtest|gmock)/.*"),
    ("benchmark", r"benchmark/.*"),
    # The standard library and the system.
    (
        "std/thread",
        r"thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token",
    ),
    ("std/iostream", r"iostream|fstream"),
    (
        "posix",
        r"(sys|arpa|netinet|linux)/.*|(dlfcn|unistd|fcntl|signal|poll|dirent|termios|netdb|ifaddrs|pthread|sched|pwd|spawn|malloc|cxxabi)\.h",
    ),
    ("intrinsics", r"(x86intrin|immintrin|emmintrin|nmmintrin|cpuid|arm_neon)\.h"),
    ("std", r"c?[a-z_0-9]+|(stdint|stddef|math|string|stdlib|stdio|errno|limits|time|float)\.h"),
]

# Who may include what: the dependency table of docs/ARCHITECTURE.md. First matching row (regular expression of the
# including file's path) decides; a name allows itself and, with a trailing "/", everything below it.
_STD = ["std", "std/"]
_LOW = [*_STD, "absl", "absl/", "base"]  # what any host code may use
_SERVICE = ["service", "service/"]
_TESTS_OF_ENGINE = [
    *_LOW,
    "sparse",
    "sparse/",
    "service/store",
    "service/engine",
    "service/engine/",
    "tests",
    "gtest",
    "openssl",
    "posix",
]
_CPU = [*_LOW, "sparse", "sparse/", "highway"]
_ENGINE = [*_LOW, "sparse", "sparse/", "service/store", "service/engine"]
DEPENDENCIES = [
    # sparse/: what an aggregation is. No thread, no network, no file.
    (r"base/host_vector\.cc", ["std", "base", "posix"]),  # huge pages are the system's
    (r"base/cgroup_limits\.cc", ["std", "std/iostream", "absl", "base", "posix"]),  # cgroups
    (r"base/.*", ["std", "absl", "base"]),
    (r"sparse/streaming_x86_64\.cc", ["std", "sparse", "intrinsics"]),  # has non-temporal stores
    (r"sparse/.*", ["std", "absl", "base", "sparse", "sparse/"]),
    # Cells and what is done to them, without a plan; then the loops over cells; then the two kinds of plans.
    (r"cpu/state/.*", [*_CPU, "cpu/state"]),
    (r"cpu/kernels/.*", [*_CPU, "cpu/state", "cpu/kernels"]),
    (r"cpu/windowed/.*", [*_CPU, "cpu", "cpu/state", "cpu/kernels", "cpu/windowed"]),
    (r"cpu/dense/.*", [*_CPU, "cpu", "cpu/"]),
    (r"cpu/.*", [*_CPU, "cpu", "cpu/", "tbb", "posix"]),
    # Kernels see only sparse/ headers marked host+device (HOST_DEVICE_ONLY below).
    # cuSPARSE is loaded at run time.
    (r"cuda/cusparse\.cc", [*_STD, "cuda", "cuda_runtime", "cub", "posix"]),
    (r"cuda/raii/queued_work\.cc", [*_STD, "cuda", "posix"]),  # names of types
    (r"cuda/kernels/.*", ["std", "base", "sparse", "cuda", "cuda_runtime", "cub"]),
    (r"cuda/.*\.(cu|cuh)", ["std", "base", "sparse", "cuda", "cuda_runtime", "cub"]),
    (r"cuda/.*", [*_LOW, "sparse", "sparse/", "cuda", "cuda_runtime"]),
    # The protocol and its conversions to the core types.
    (
        r"proto/.*",
        [*_LOW, "sparse", "proto", "proto/", "protobuf", "grpc", "service/engine", "service/store"],
    ),
    (r"service/store/.*", [*_LOW, "service/store", "openssl", "isa-l", "sqlite", "posix"]),
    # What the store keeps of a round is JSON: for operators, and for later versions.
    (
        r"service/engine/recovery/(stored\.cc|strict_json\.h)",
        [*_ENGINE, "service/engine/recovery", "json"],
    ),
    # From memory to rounds, each folder uses those before it; engine.cc puts them together.
    (r"service/engine/memory/.*", [*_ENGINE, "service/engine/memory"]),
    (r"service/engine/partial/.*", [*_ENGINE, "service/engine/partial"]),
    (
        r"service/engine/ingest/.*",
        [*_ENGINE, "service/engine/memory", "service/engine/partial", "service/engine/ingest"],
    ),
    (
        r"service/engine/upload/.*",
        [*_ENGINE, "service/engine/memory", "service/engine/ingest", "service/engine/upload"],
    ),
    (
        r"service/engine/result/.*",
        [*_ENGINE, "service/engine/memory", "service/engine/partial", "service/engine/result"],
    ),
    (
        r"service/engine/recovery/.*",
        [
            *_ENGINE,
            "service/engine/memory",
            "service/engine/partial",
            "service/engine/ingest",
            "service/engine/result",
            "service/engine/recovery",
        ],
    ),
    (r"service/engine/.*", [*_ENGINE, "service/engine/"]),
    # Work that clients come for; a round is known to it by its state and its counted updates.
    (
        r"service/tasks/stored_tasks\.cc",
        [*_LOW, "proto", "service/store", "service/tasks", "json"],
    ),
    (
        r"service/tasks/.*",
        [*_LOW, "proto", "service/engine", "service/store", "service/store/", "service/tasks"],
    ),
    # Who calls and what they may do: no network, no engine.
    (r"service/auth/.*", [*_LOW, "service/auth", "openssl", "json", "posix"]),
    (r"service/audit/.*", [*_LOW, "service/audit", "openssl", "json", "posix"]),
    (r"service/telemetry/.*", [*_LOW, "spdlog", "json", "posix", "service/telemetry"]),
    (
        r"service/rpc/.*",
        [
            *_LOW,
            "sparse",
            "proto",
            "proto/",
            "grpc",
            "protobuf",
            "service/auth",
            "service/engine",
            "service/engine/partial",
            "service/engine/result",
            "service/store",
            "service/tasks",
            "service/rpc",
            "service/telemetry",
            "posix",
        ],
    ),
    # For operators: what the parts below report, as metrics, log and status page.
    (
        r"service/admin/.*",
        [
            *_ENGINE,
            "service/tasks",
            "service/rpc",
            "service/telemetry",
            "service/admin",
            "prometheus",
            "http",
            "json",
            "profiler",
            "posix",
        ],
    ),
    # A root and its leaves: a decorator of the engine, which calls other servers as a client.
    (
        r"service/tree/.*",
        [
            *_ENGINE,
            "service/engine/partial",
            "service/engine/result",
            "service/rpc",
            "service/config",
            "service/telemetry",
            "service/tree",
            "client",
            "grpc",
            "proto/generated",
            "proto/grpc",
        ],
    ),
    # HTTP in front of the calls of service/rpc: it knows no gRPC and no engine.
    (
        r"service/http/.*",
        [
            *_LOW,
            "beast",
            "json",
            "openssl",
            "posix",
            "proto",
            "proto/",
            "protobuf",
            "service/auth",
            "service/engine",
            "service/http",
            "service/rpc",
        ],
    ),
    (r"service/main\.cc", [*_LOW, *_SERVICE, "client/cli", "sparse", "cli11", "grpc"]),
    (
        r"service/serve\.(h|cc)",
        [*_LOW, *_SERVICE, "sparse", "posix", "spdlog", "cli11", "json", "grpc"],
    ),
    # How this server is protected, from the configuration to the edge.
    (r"service/server_security\.(h|cc)", [*_LOW, *_SERVICE]),
    (r"service/gpu_loss\.(h|cc)", [*_LOW, *_SERVICE]),
    # What this server is, as the answer of GetServerInfo: part of the composition, not of the edge.
    (r"service/server_info\.(h|cc)", [*_LOW, *_SERVICE, "sparse", "proto", "proto/"]),
    (r"service/allocator_tcmalloc\.cc", ["std", "service", "allocator"]),
    (r"service/commands/.*", [*_LOW, *_SERVICE, "sparse", "cli11", "json", "posix"]),
    (
        r"service/(config/)?[^/]+\.(h|cc)",
        [
            *_LOW,
            "service",
            "service/config",
            "service/audit",
            "service/auth",
            "service/engine",
            "service/store",
            "service/tasks",
            "service/telemetry",
            "sparse",
            "cli11",
            "json",
            "posix",
        ],
    ),
    # The command line reduces without a server, too, through the back ends' interface in sparse/.
    (
        r"client/cli/.*",
        [
            *_LOW,
            "client",
            "client/cli",
            "sparse",
            "sparse/",
            "proto",
            "proto/",
            "grpc",
            "protobuf",
            "cli11",
            "http",
            "json",
            "zip",
            "posix",
        ],
    ),
    (
        r"client/.*",
        [
            *_LOW,
            "client",
            "sparse",
            "sparse/",
            "proto",
            "proto/",
            "grpc",
            "protobuf",
            "openssl",
            "zip",
            "posix",
        ],
    ),
    # The core for the Python package: no protocol, no network.
    (
        r"python/native/.*",
        [
            *_ENGINE,
            "service/engine/result",
            "service/engine/round",
            "cpu",
            "cpu/state",  # the sorting of keys
            "posix",
            "python/native",
        ],
    ),
    # A program, as service/main.cc is.
    (r"tests/e2e/serve_program\.cc", ["std", "service/commands", "sparse", "cli11"]),
    (r"tests/python/native/.*", [*_LOW, "sparse/encodings", "python/native", "posix", "gtest"]),
    # Measures kernels beside raw CUB.
    (r"bench/gpu/.*", [*_LOW, "sparse", "sparse/", "cuda", "cuda_runtime", "cub", "bench"]),
    (
        r"bench/.*",
        [
            *_LOW,
            "bench",
            "benchmark",
            "sparse",
            "sparse/",
            "client",
            "json",
            "cli11",
            "proto",
            "proto/",
            "grpc",
            "posix",
            "tbb",  # peers
            "eigen",  # a peer
            "tests",
        ],
    ),
    # A test may see what the folder it mirrors sees, and the test libraries.
    (
        r"tests/(sparse|numerics|property|conformance)/.*",
        [*_LOW, "sparse", "sparse/", "cpu", "tests", "gtest", "json"],
    ),
    (
        r"tests/cpu/.*",
        [*_LOW, "sparse", "sparse/", "cpu", "cpu/", "highway", "tests", "gtest", "posix"],
    ),
    # Kernels on the host: Thrust's host system stands in for the device's.
    (
        r"tests/cuda/emulator/.*",
        [*_LOW, "sparse", "sparse/", "cuda", "cuda_runtime", "cub", "tests"],
    ),
    # The bytes of one back end against those of another.
    (
        r"tests/cuda/devices/partials_test\.cc",
        [*_LOW, "sparse", "sparse/", "cpu", "cuda", "cuda_runtime", "tests", "gtest"],
    ),
    (r"tests/cuda/.*", [*_LOW, "sparse", "sparse/", "cuda", "cuda_runtime", "tests", "gtest"]),
    (
        r"tests/proto/.*",
        [
            *_LOW,
            "proto",
            "proto/",
            "protobuf",
            "sparse",
            "service/engine",
            "service/store",
            "tests",
            "gtest",
        ],
    ),
    (
        r"tests/client/.*",
        [
            *_LOW,
            "sparse",
            "sparse/",
            "client",
            "client/cli",
            "proto",
            "proto/",
            "grpc",
            "protobuf",
            "zip",
            "json",
            "cli11",
            "posix",
            *_SERVICE,
            "tests",
            "gtest",
        ],
    ),
    (r"tests/service/engine/partial/.*", [*_TESTS_OF_ENGINE, "json"]),
    (r"tests/service/(store|engine)/.*", _TESTS_OF_ENGINE),
    (
        r"tests/(service/auth/.*|support/certificates.*)",
        [*_LOW, *_SERVICE, "proto/", "openssl", "json", "tests", "gtest"],
    ),
    (
        r"tests/service/admin/.*",
        [
            *_ENGINE,
            "service/tasks",
            "service/rpc",
            "service/telemetry",
            "service/admin",
            "http",
            "json",
            "posix",
            "tests",
            "gtest",
        ],
    ),
    (
        r"tests/borders/.*",
        [
            *_LOW,
            "sparse",
            "sparse/",
            "proto",
            "proto/",
            "grpc",
            "highway",
            "posix",
            "tests",
            "gtest",
        ],
    ),
    (
        r"tests/.*",
        [
            *_LOW,
            *_SERVICE,
            "http",
            "beast",
            "sparse",
            "sparse/",
            "client",
            "client/cli",
            "proto",
            "proto/",
            "grpc",
            "protobuf",
            "json",
            "posix",
            "tests",
            "gtest",
        ],
    ),
    (r"examples/.*", [*_LOW, "installed client"]),
]

# Includes that one row of the table allows and one file must not have: (file, included path, why).
FORBIDDEN = [
    (
        r"cuda/.*\.(h)",
        r"(cub|thrust)/.*",
        "a .h compiles with g++ alone; CUB and Thrust belong into .cu and .cuh",
    ),
    (
        r"cuda/cuda_backend\.h",
        r"cuda_runtime.*",
        "the public header of the folder has no CUDA type in it",
    ),
]
# Files whose includes from sparse/ must be marked for host and device, that is, include base/host_device.h.
HOST_DEVICE_ONLY = r"cuda/kernels/.*\.(cu|cuh)"

# Preprocessor conditions (#if, #ifdef, #ifndef but for the header guard) are allowed in these files only: whether a
# feature exists is a CMake decision that changes a list, not a condition in the code.
# The second: what Highway compiles once for each instruction set.
CONDITIONALS_ALLOWED = [
    r"base/host_device\.h",
    r"cpu/kernels/(\w+-inl\.h|kernels_\w+\.cc)",
    r"tests/sparse/compilers_f16\.h",
]

# Words for unfinished work: finish it or write an issue. Split, so that this file does not match itself.
UNFINISHED = ["TO" + "DO", "FIX" + "ME", "XX" + "X:"]

# A skipped test must say which hardware or package is missing.
SKIP_REASON = r"GPU|CUDA|package|install"

# A reaction that may throw. A lack of memory in it has to end the process (docs/operations.md).
REACTION = r"\bvoid On(ReadDone|WriteDone|Cancel|Done)\([^)]*\) (override|final)"

# Sources whose errors have reasons that docs/api.md lists.
ERRORS_OF = r"(base|service|sparse|cpu|cuda|proto|client)/.*\.(h|cc|cu|cuh)$"

# Waiting by the clock makes tests slow and flaky: wait for the event. Polling another process is the one exception,
# in the helpers named here.
SLEEPS = r"sleep_for|sleep_until|\busleep\(|\bnanosleep\(|absl::SleepFor|time\.sleep\("
SLEEPS_ALLOWED = [
    "tests/python/conftest.py",
    "tests/client/cli/program.py",
    "tests/ops/server.py",
    "tests/ops/page_test.py",
    "tests/ops/prometheus_test.py",
    "tests/ops/restart_test.py",
    "tests/hostile/server.py",
]

# Binary files, which the tree does not have, but links do.
PICTURES = r"\.(webp|png)$"

# Other names of commands of ./dev.
DEV_COMMANDS_OTHER = {"help", "test-adapters"}

FILE_LINES_MAX = 450
TEST_FILE_LINES_MAX = 600  # tables of cases are long and easy to read
FUNCTION_LINES_MAX = 100
# Functions above this count as long; at most this share of all functions may be.
FUNCTION_LINES_LONG = 70
LONG_FUNCTIONS_SHARE_MAX = 0.03

# Folders that hold no sources of ours.
IGNORED_FOLDERS = {".git", "build", ".venv", "__pycache__", "node_modules"}
GENERATED = r".*_pb2(_grpc)?\.pyi?"
