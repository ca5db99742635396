// Runs of equal rows, cut into pieces of at most kPiecePositions: so that a row that everybody has
// keeps as many threads busy as others. The cuts are at fixed places and slots are integers, so
// they change no bit.
#ifndef SPARSEAGG_CUDA_KERNELS_ROW_PIECES_H_
#define SPARSEAGG_CUDA_KERNELS_ROW_PIECES_H_

#include <cstdint>

#include "cuda/kernels/batch.h"
#include "cuda/kernels/count.h"

namespace sparseagg::gpu {

inline constexpr uint64_t kPiecePositions = 512;

// What a thread works on: positions [begin, end) of run `run`. The first piece of a run writes into
// the run's slots, the others into rows of `partials`.
struct RowPiece {
  uint64_t run;
  uint64_t begin;
  uint64_t end;
  bool is_first;
  uint64_t partial;  // when it is not the first
};

struct RowPiecesView {
  const uint64_t* first;   // [runs + 1]: pieces of the runs before
  const uint64_t* starts;  // [runs]
  Count runs;
  uint64_t size;  // positions

  // Pieces that are not the first of their run.
  SPARSEAGG_HOST_DEVICE uint64_t Partials() const { return first[runs.Get()] - runs.Get(); }

  SPARSEAGG_HOST_DEVICE RowPiece At(uint64_t piece) const {
    uint64_t run = piece;
    if (Partials() != 0) {
      uint64_t high = runs.Get();
      for (run = 0; high - run > 1;) {
        const uint64_t middle = run + (high - run) / 2;
        (first[middle] <= piece ? run : high) = middle;
      }
    }
    const uint64_t k = piece - first[run];
    const uint64_t run_end = run + 1 < runs.Get() ? starts[run + 1] : size;
    const uint64_t begin = starts[run] + k * kPiecePositions;
    const uint64_t end = begin + kPiecePositions < run_end ? begin + kPiecePositions : run_end;
    return {run, begin, end, k == 0, k == 0 ? 0 : first[run] - run + k - 1};
  }
};

struct RowPieces {
  DeviceArray<uint64_t> first;
  Count pieces;
  RowPiecesView view = {};
  DeviceArray<Int128> partials;  // [size / kPiecePositions, slots()]: as many as there can be
};

// starts [runs]: where each run begins among the `size` positions; must outlive the result, as must
// where `runs` stands. Does not wait.
RowPieces CutRows(Queue& queue, const SlotRule& rule, const uint64_t* starts, const Count& runs,
                  uint64_t size);

// Adds the partials to slots [runs, slots()], when all of both are written.
void JoinPieces(Queue& queue, const SlotRule& rule, const RowPieces& pieces, Int128* slots);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ROW_PIECES_H_
