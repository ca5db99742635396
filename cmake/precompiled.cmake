# Headers of libraries that many sources include are compiled once for all sources of a target: gRPC's and the generated
# messages take 3 of the 9 s that a test of the service takes to compile. A source includes what it uses all the same:
# what is shipped, and ./dev lint, do without.
#   sparseagg_precompile(TARGET HEADER...)
include_guard()
set(SPARSEAGG_PRECOMPILED OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  set(SPARSEAGG_PRECOMPILED ON)
endif()
set(SPARSEAGG_PRECOMPILED_GRPC <grpcpp/grpcpp.h> <sparseagg/v1/aggregation.grpc.pb.h> <sparseagg/v1/tasks.grpc.pb.h>)

function(sparseagg_precompile target)
  if(SPARSEAGG_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    target_compile_options(${target} PRIVATE -fpch-preprocess) # ccache needs it
    # But not where the headers are compiled: it would read the result of the last time instead of a header that changed.
    set_source_files_properties("${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.cxx"
                                PROPERTIES COMPILE_OPTIONS -fno-pch-preprocess)
  endif()
endfunction()

# A test takes the headers of one of two targets that are there for nothing else.
function(sparseagg_precompile_test target libs)
  if(NOT SPARSEAGG_PRECOMPILED)
    return()
  endif()
  set(kind test)
  set(headers <gmock/gmock.h> <gtest/gtest.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <chrono> <functional>
              <nlohmann/json.hpp>)
  if(libs MATCHES "auth|proto|rpc|e2e|serve|client|cli|admin|http|tree")
    set(kind rpc_test)
    list(APPEND headers ${SPARSEAGG_PRECOMPILED_GRPC})
  endif()
  set(owner sparseagg_${kind}_headers)
  if(NOT TARGET ${owner})
    add_executable(${owner} EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/support/precompiled_headers.cc)
    target_link_libraries(${owner} PRIVATE sparseagg_options GTest::gmock GTest::gtest GTest::gtest_main)
    if(kind STREQUAL "rpc_test")
      target_link_libraries(${owner} PRIVATE sparseagg_proto)
    endif()
    target_compile_options(${owner} PRIVATE ${SPARSEAGG_TEST_OPTIONS} -pthread)
    sparseagg_precompile(${owner} ${headers})
  endif()
  if(kind STREQUAL "rpc_test")
    target_link_libraries(${target} PRIVATE sparseagg_proto) # its options, which the headers were compiled with
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
  target_compile_options(${target} PRIVATE -fpch-preprocess -pthread) # the macros are those of the owner
endfunction()
