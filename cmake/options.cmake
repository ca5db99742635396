# Build options, and the compile options of every target.
include_guard()
include(CheckLanguage)

set(SPARSEAGG_CUDA AUTO CACHE STRING "Build the CUDA folder: AUTO (when nvcc is found), ON, OFF")
set_property(CACHE SPARSEAGG_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SPARSEAGG_SANITIZE "" CACHE STRING "Sanitizers: empty, address (with undefined), thread, fuzzer (clang)")
option(SPARSEAGG_UNDEFINED "With SPARSEAGG_SANITIZE=address: undefined behaviour, too, for half of the compile time" ON)
option(SPARSEAGG_ONE_INSTRUCTION_SET "CPU kernels for the instructions that every machine has, and for no others" OFF)
option(SPARSEAGG_TESTS "Build the tests" ON)
set(SPARSEAGG_E2E_PROGRAM sparseagg CACHE STRING "The program of tests/e2e: sparseagg, or sparseagg_serve_program")
option(SPARSEAGG_BENCH "Build the benchmarks" ON)
option(SPARSEAGG_SERVER "Build the server, the client and the CPU back end: not needed to check a GPU (bench/gpu)" ON)
option(SPARSEAGG_PYTHON "Build the native library of the Python package: sums without a server" OFF)
option(SPARSEAGG_STATIC_DEPS "Link libraries statically, all but the C library's: one program for any distribution" OFF)
option(SPARSEAGG_WERROR "Treat warnings as errors" ON)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(SPARSEAGG_CCACHE ccache)
if(SPARSEAGG_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The cache stays inside the checkout: build/ is all that a build leaves behind.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DIR=${CMAKE_SOURCE_DIR}/build/ccache
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${SPARSEAGG_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Each test is a program: lld links one in a fifth of the time. What is shipped is linked by the system's linker.
# A cross compiler does not find it. (mold 1.10, faster still, makes programs that do not start, and once did not end.)
find_program(SPARSEAGG_LLD ld.lld)
if(SPARSEAGG_LLD AND NOT CMAKE_CROSSCOMPILING AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  add_link_options(-fuse-ld=lld)
endif()

# Sources that are one processor's end in its name; "other" does without.
set(SPARSEAGG_PROCESSOR other)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(SPARSEAGG_PROCESSOR x86_64)
endif()

add_library(sparseagg_options INTERFACE)
target_include_directories(sparseagg_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
# -Wno-restrict: false alarms of g++ 12 on assignments of short literals to std::string (GCC bug 105651).
# The numerics contract forbids contraction of a*b+c (docs/numerics.md).
target_compile_options(sparseagg_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-ffp-contract=off>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(SPARSEAGG_WERROR)
  target_compile_options(sparseagg_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(SPARSEAGG_SANITIZE STREQUAL "address")
  # -Wno-maybe-uninitialized: false alarms of g++ 12 in std::regex, with this sanitizer only.
  set(_sanitize -fsanitize=address -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  if(SPARSEAGG_UNDEFINED)
    list(APPEND _sanitize -fsanitize=undefined)
  endif()
elseif(SPARSEAGG_SANITIZE STREQUAL "thread")
  # -Wno-array-bounds: as -Wno-restrict, with this sanitizer only.
  set(_sanitize -fsanitize=thread -fno-omit-frame-pointer -Wno-array-bounds)
elseif(SPARSEAGG_SANITIZE STREQUAL "fuzzer")
  # address and undefined, and what libFuzzer sees of the code; tests/fuzz links libFuzzer itself.
  set(_sanitize -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(SPARSEAGG_SANITIZE)
  message(FATAL_ERROR "SPARSEAGG_SANITIZE is '${SPARSEAGG_SANITIZE}'; use address, thread or fuzzer")
endif()
if(SPARSEAGG_SANITIZE)
  target_compile_options(sparseagg_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${_sanitize}>)
  target_link_options(sparseagg_options INTERFACE ${_sanitize})
endif()

set(SPARSEAGG_HAVE_CUDA OFF)
if(NOT SPARSEAGG_CUDA STREQUAL "OFF")
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Hopper as machine code, everything else through PTX. The preset "release" has machine code for all of them.
      set(CMAKE_CUDA_ARCHITECTURES "90-real;80-virtual")
    endif()
    enable_language(CUDA)
    # Nothing here uses it, but CMake 3.25 marks it as deprecated, and CUDA 13 does not have it any more.
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    find_package(CUDAToolkit REQUIRED)
    # CMake 3.25 does not know C++20 for nvcc: not required here, passed as an option in cuda/CMakeLists.txt.
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
    set(SPARSEAGG_HAVE_CUDA ON)
  elseif(SPARSEAGG_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SPARSEAGG_CUDA=ON, but no CUDA compiler was found. Put nvcc on PATH or set CUDACXX.")
  endif()
endif()
