// Chooses the window of the exact accumulators from a sample of what will be added. The choice
// decides how many products need the side table, that is, speed and memory; no bit of a result
// depends on it.
#ifndef SPARSEAGG_SPARSE_WINDOW_CHOICE_H_
#define SPARSEAGG_SPARSE_WINDOW_CHOICE_H_

#include <cstdint>
#include <vector>

namespace sparseagg {

// The lsb (sparse/window.h) of a window that holds as many of the samples as possible, with equal
// room above and below them. By counting, not by the largest value: a few extreme products cannot
// move the window away from the others. Zeros do not count. All zeros: 0.
int32_t ChooseWindow(const std::vector<double>& samples);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_WINDOW_CHOICE_H_
