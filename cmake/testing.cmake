# sparseagg_test(sparse/types_test LIBS sparseagg_core [LABELS slow] [ENVIRONMENT ...])
# A GoogleTest program tests/<path>.cc that mirrors the source of the same path; registered with CTest as one test.
include_guard()
include(precompiled)
if(SPARSEAGG_TESTS)
  find_package(GTest REQUIRED)
endif()

function(sparseagg_test path)
  cmake_parse_arguments(arg "" "" "LIBS;LABELS;ENVIRONMENT" ${ARGN})
  string(REPLACE "/" "_" target ${path})
  add_executable(${target} ${CMAKE_SOURCE_DIR}/tests/${path}.cc)
  target_link_libraries(${target} PRIVATE sparseagg_options ${arg_LIBS} GTest::gmock GTest::gtest GTest::gtest_main)
  # A test's own work is small, and all tests are a third of what a build compiles: -O1 takes an eighth less time.
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  sparseagg_precompile_test(${target} "${arg_LIBS}")
  add_test(NAME ${path} COMMAND ${target})
  set_tests_properties(${path} PROPERTIES LABELS "${arg_LABELS}" ENVIRONMENT "${arg_ENVIRONMENT}" TIMEOUT 900)
endfunction()
