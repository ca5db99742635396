// A limit of what one `operator new` of a test program gives: above it std::bad_alloc is thrown. A
// program that links sparseagg_allocation_limit and names the limit has such operators.
#ifndef SPARSEAGG_TESTS_SUPPORT_ALLOCATION_LIMIT_H_
#define SPARSEAGG_TESTS_SUPPORT_ALLOCATION_LIMIT_H_

#include <atomic>
#include <cstddef>

namespace sparseagg::testing {

extern std::atomic<size_t> allocation_bytes_max;

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_ALLOCATION_LIMIT_H_
