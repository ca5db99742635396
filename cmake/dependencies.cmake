# Libraries, all from the distribution (docs/decisions/0001-dependencies.md says why each).
include_guard()
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
if(NOT SPARSEAGG_SERVER)
  if(SPARSEAGG_STATIC_DEPS)
    include(static_deps)
  endif()
  return()  # the core needs no more
endif()
find_package(TBB REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(Boost REQUIRED) # headers only: Asio, Beast
find_package(ZLIB REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
# Through pkg-config: Debian's CMake files of libzip name programs that other packages hold.
find_package(PkgConfig REQUIRED)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET GLOBAL libzip)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET GLOBAL libhwy libhwy-contrib)
add_library(libzip::zip ALIAS PkgConfig::libzip)
# Debian's library is compiled with the definitions that its .pc file names; they decide the layout of its classes.
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET GLOBAL cpp-httplib)

# The allocator of programs that reduce. Not with sanitizers, which bring their own.
add_library(sparseagg_allocator INTERFACE)
if(NOT SPARSEAGG_SANITIZE)
  pkg_check_modules(tcmalloc REQUIRED IMPORTED_TARGET GLOBAL libtcmalloc_minimal)
  target_link_libraries(sparseagg_allocator INTERFACE PkgConfig::tcmalloc)
endif()

# CPU profiles. Its archive needs libunwind's, which is not compiled for a program whose parts can be anywhere.
set(SPARSEAGG_PROFILER ON)
if(SPARSEAGG_SANITIZE OR SPARSEAGG_STATIC_DEPS)
  set(SPARSEAGG_PROFILER OFF)
endif()
add_library(sparseagg_profiler INTERFACE)
if(SPARSEAGG_PROFILER)
  pkg_check_modules(profiler REQUIRED IMPORTED_TARGET GLOBAL libprofiler)
  target_link_libraries(sparseagg_profiler INTERFACE PkgConfig::profiler)
endif()

if(SPARSEAGG_STATIC_DEPS)
  include(static_deps)
endif()
