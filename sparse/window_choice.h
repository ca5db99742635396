// Chooses the window of the exact accumulators from a sample of the products to be added. The
// choice decides how many products need the side table, and so speed and memory; no bit of a result
// depends on it.
#ifndef SPARSEAGG_SPARSE_WINDOW_CHOICE_H_
#define SPARSEAGG_SPARSE_WINDOW_CHOICE_H_

#include <cstdint>
#include <vector>

namespace sparseagg {

// Returns the lsb (sparse/window.h) of a window that holds as many of the samples as possible, with
// equal room above and below them. It counts samples instead of following the largest one, so a few
// extreme products cannot move the window away from the others. Zeros are ignored; returns 0 when
// there is nothing else.
int32_t ChooseWindow(const std::vector<double>& samples);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_WINDOW_CHOICE_H_
