// What the host decides about the exact accumulators on the device: the rule of a spec, the window,
// and what no kernel can put aside.
#ifndef SPARSEAGG_CUDA_WINDOW_H_
#define SPARSEAGG_CUDA_WINDOW_H_

#include <cstdint>
#include <vector>

#include "cuda/batch.h"
#include "cuda/kernels/batch.h"
#include "sparse/side_entry.h"
#include "sparse/types.h"

namespace sparseagg::gpu {

// REQUIRES: the operator is known.
SlotRule RuleOf(const ReduceSpec& spec);

// The lsb of a window that suits a sample of the products and weights of `updates`; 0 for rules
// without a side table.
int32_t ChooseLsb(const SlotRule& rule, const std::vector<PendingUpdate>& updates);

// Side entries for the row slots of those updates whose weight is outside the window: one for each
// row that such an update has, counted once.
void AppendRowSide(const SlotRule& rule, const std::vector<PendingUpdate>& updates,
                   std::vector<SideEntry>& side);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_WINDOW_H_
