// Runs of equal rows, cut into pieces of at most kPiecePositions, so that a row that everybody has
// keeps as many threads busy as others. The cuts are at fixed places and slots are integers, so
// they change no bit.
//
// The first piece of a run has the run's number. A later piece begins at position q of its run, at
// least kPiecePositions behind the run's begin, so the last multiple of kPiecePositions that is not
// above q is inside the run, too, and no other piece has it: that multiple, counted from 0 for
// position kPiecePositions, numbers the piece. Nothing is counted or scanned, the numbers of a
// run's later pieces are consecutive, and few numbers belong to no piece.
#ifndef SPARSEAGG_CUDA_KERNELS_ROWS_ROW_PIECES_H_
#define SPARSEAGG_CUDA_KERNELS_ROWS_ROW_PIECES_H_

#include <cstdint>

#include "cuda/kernels/batch.h"
#include "cuda/kernels/launch/count.h"

namespace sparseagg::gpu {

inline constexpr uint64_t kPiecePositions = 512;

// Positions [begin, end) of run `run`; none for a number that belongs to no piece.
struct RowPiece {
  uint64_t run = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool whole = false;  // the piece is all of its run
};

struct RowPiecesView {
  static constexpr uint64_t kNoRun = ~uint64_t{0};

  const uint64_t* starts;  // [runs]
  Count runs;
  uint64_t size;                 // positions
  const uint64_t* run_of_later;  // [later]: kNoRun where there is no piece of that number

  SPARSEAGG_HOST_DEVICE uint64_t EndOf(uint64_t run) const {
    return run + 1 < runs.Get() ? starts[run + 1] : size;
  }
  SPARSEAGG_HOST_DEVICE RowPiece First(uint64_t run) const {
    if (run >= runs.Get()) return {};
    const uint64_t begin = starts[run];
    const uint64_t end = EndOf(run);
    const bool whole = end - begin <= kPiecePositions;
    return {run, begin, whole ? end : begin + kPiecePositions, whole};
  }
  // The number of the first later piece of a run that has any.
  SPARSEAGG_HOST_DEVICE uint64_t FirstLater(uint64_t run) const {
    return starts[run] / kPiecePositions;
  }
  SPARSEAGG_HOST_DEVICE uint64_t LaterOf(uint64_t run) const {
    return (EndOf(run) - starts[run] - 1) / kPiecePositions;
  }
  SPARSEAGG_HOST_DEVICE RowPiece Later(uint64_t number) const {
    const uint64_t run = run_of_later[number];
    if (run == kNoRun) return {};
    const uint64_t begin = starts[run] + (number - FirstLater(run) + 1) * kPiecePositions;
    const uint64_t run_end = EndOf(run);
    return {run, begin, begin + kPiecePositions < run_end ? begin + kPiecePositions : run_end};
  }
};

struct RowPieces {
  uint64_t later = 0;  // numbers of later pieces
  DeviceArray<uint64_t> run_of_later;
  RowPiecesView view = {};
  DeviceArray<Int128> partials;  // [later, slots()]
};

// starts [runs]: where each run begins among the `size` positions; must outlive the result, as must
// where `runs` stands. Does not wait.
RowPieces CutRows(Queue& queue, const SlotRule& rule, const uint64_t* starts, const Count& runs,
                  uint64_t size);

// Adds up the partials of each run, columns from `first_column` on, at the number of its first
// later piece.
void JoinPartials(Queue& queue, const SlotRule& rule, const RowPieces& pieces,
                  uint32_t first_column = 0);

// Adds the partials to those columns of slots [runs, slots()], when all of both are written.
void JoinPieces(Queue& queue, const SlotRule& rule, const RowPieces& pieces, Int128* slots,
                uint32_t first_column = 0);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ROWS_ROW_PIECES_H_
