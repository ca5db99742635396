# sparseagg_test(sparse/types_test LIBS sparseagg_core [LABELS slow] [ENVIRONMENT ...])
# A GoogleTest program tests/<path>.cc that mirrors the source of the same path; registered with CTest as one test.
include_guard()
include(precompiled)
if(SPARSEAGG_TESTS)
  find_package(GTest REQUIRED)
endif()

# A test's own work is small, and all tests are a third of what a build compiles: -O1 takes an eighth less time. So do
# tests without line numbers, which a failed assertion does not need; the report of a sanitizer does.
set(SPARSEAGG_TEST_OPTIONS $<$<CONFIG:RelWithDebInfo>:-O1>)
if(NOT SPARSEAGG_SANITIZE)
  list(APPEND SPARSEAGG_TEST_OPTIONS $<$<CONFIG:RelWithDebInfo>:-g0>)
endif()

function(sparseagg_test path)
  cmake_parse_arguments(arg "" "" "LIBS;LABELS;ENVIRONMENT" ${ARGN})
  string(REPLACE "/" "_" target ${path})
  add_executable(${target} ${CMAKE_SOURCE_DIR}/tests/${path}.cc)
  target_link_libraries(${target} PRIVATE sparseagg_options ${arg_LIBS} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_options(${target} PRIVATE ${SPARSEAGG_TEST_OPTIONS})
  sparseagg_precompile_test(${target} "${arg_LIBS}")
  add_test(NAME ${path} COMMAND ${target})
  set_tests_properties(${path} PROPERTIES LABELS "${arg_LABELS}" ENVIRONMENT "${arg_ENVIRONMENT}" TIMEOUT 900)
endfunction()
