# sparseagg_test(sparse/types_test LIBS sparseagg_core [LABELS slow] [ENVIRONMENT ...])
# A GoogleTest program tests/<path>.cc that mirrors the source of the same path; registered with CTest as one test.
include_guard()
if(SPARSEAGG_TESTS)
  find_package(GTest REQUIRED)
  # Headers of libraries that most tests read, compiled once. None of ours is among them: each would rebuild every test.
  # A program, since the compiler takes a precompiled header only where its options are the same. A test is compiled
  # with -O1: its own work is small, and all of them are a third of what a build compiles.
  set(SPARSEAGG_TEST_OPTIONS -pthread -Wno-error=invalid-pch $<$<CONFIG:RelWithDebInfo>:-O1>)
  add_executable(sparseagg_test_headers ${CMAKE_SOURCE_DIR}/tests/support/precompiled.cc)
  target_link_libraries(sparseagg_test_headers PRIVATE sparseagg_options GTest::gmock GTest::gtest)
  target_compile_options(sparseagg_test_headers PRIVATE ${SPARSEAGG_TEST_OPTIONS})
  target_precompile_headers(sparseagg_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>
    <algorithm> <chrono> <filesystem> <fstream> <functional> <future> <map> <memory> <random> <set> <string> <thread>
    <unordered_map> <vector>)
  if(SPARSEAGG_SERVER)
    target_link_libraries(sparseagg_test_headers PRIVATE gRPC::grpc++)
    target_precompile_headers(sparseagg_test_headers PRIVATE <grpcpp/grpcpp.h> <google/protobuf/message.h>)
  endif()
endif()

function(sparseagg_test path)
  cmake_parse_arguments(arg "" "" "LIBS;LABELS;ENVIRONMENT" ${ARGN})
  string(REPLACE "/" "_" target ${path})
  add_executable(${target} ${CMAKE_SOURCE_DIR}/tests/${path}.cc)
  target_link_libraries(${target} PRIVATE sparseagg_options ${arg_LIBS} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_options(${target} PRIVATE ${SPARSEAGG_TEST_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM sparseagg_test_headers)
  add_test(NAME ${path} COMMAND ${target})
  set_tests_properties(${path} PROPERTIES LABELS "${arg_LABELS}" ENVIRONMENT "${arg_ENVIRONMENT}" TIMEOUT 900)
endfunction()
