// Chooses the window of the exact accumulators from a sample of what will be added. The choice
// decides how many products need the side table, that is, speed and memory; no bit of a result
// depends on it.
#ifndef SPARSEAGG_CPU_WINDOW_CHOICE_H_
#define SPARSEAGG_CPU_WINDOW_CHOICE_H_

#include <cstdint>
#include <vector>

namespace sparseagg {

// The lsb (sparse/window.h) of a window that holds as many of the samples as possible, with equal
// room above and below them. By counting, not by the largest value: a few extreme products cannot
// move the window away from the others. Zeros do not count. All zeros: 0.
int32_t ChooseWindow(const std::vector<double>& samples);

// The part of the non-zero samples that a window at `lsb` holds, 0 to 1; 1 when there are none.
double WindowCoverage(const std::vector<double>& samples, int32_t lsb);

// The window for a batch with these samples: the present one while it holds nearly all of them,
// since moving costs a pass over the state, or the chosen one where it holds clearly more.
int32_t NextWindow(const std::vector<double>& samples, bool has_window, int32_t lsb);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOW_CHOICE_H_
