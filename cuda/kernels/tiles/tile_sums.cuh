// The sums of one tile of rows in shared memory: a bit for each row, and slots for held rows alone.
//
//   Clear, Hold(row) ..., Rank        which rows are held, and how many
//   Start, Add(row, ...) ..., Write   the slots of at most kSlots / slots() held rows at a time
//
// Between any two of them is a barrier. A held row's place is the number of held rows before it:
// that of the words before its word, and the bits before its bit (a succinct bit vector: Jacobson,
// 1989).
//
// A slot is four words of 32 bits, so that an add is a native atomic of shared memory; 64-bit adds
// are loops of compare and swap there. Each word's old value tells its carry, which is added to the
// next word: exact in any order and for any number of addends, so no slot has to be normalised
// before it is written. (Words of 22 bits that keep their carries would take four adds without
// results for each addend, but no more than 512 addends at a time.) An addend of few bits changes
// two or three words: the carry of a small negative one mostly meets words of all ones and ends
// there.
#ifndef SPARSEAGG_CUDA_KERNELS_TILES_TILE_SUMS_CUH_
#define SPARSEAGG_CUDA_KERNELS_TILES_TILE_SUMS_CUH_

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/batch.h"
#include "cuda/kernels/launch/block_scan.cuh"
#include "cuda/kernels/launch/launch.cuh"

namespace sparseagg::gpu {

// Shared memory. 87 KB: with what a kernel has beside it, less than the 99 KB that a block may have
// on every device, and two blocks on a multiprocessor of 228 KB.
struct TileSums {
  static constexpr int kRowBits = 15;
  static constexpr uint32_t kRows = 1 << kRowBits;
  static constexpr uint32_t kSlots = 4608;
  static constexpr uint32_t kWords = kRows / 32;
  static constexpr uint32_t kLimbs = 4;

  uint32_t limbs[kLimbs][kSlots];  // of neighbouring slots in neighbouring banks
  uint32_t held[kWords];           // bit r % 32 of word r / 32
  uint16_t before[kWords];         // held rows in the words before
  uint16_t rows[kSlots];           // the row of the tile that each place is for
  uint32_t num_held;

  // Of a kernel's Shared: what a block may have on every device, less what CUB's scans take.
  static constexpr size_t kSharedMax = (size_t{99} << 10) - 512;

  // Places of rows at a time.
  static SPARSEAGG_DEVICE uint32_t Capacity(const SlotRule& rule) { return kSlots / rule.slots(); }

  // Rows that have places when those from `first` on do.
  SPARSEAGG_DEVICE uint32_t Places(const SlotRule& rule, uint32_t first) const {
    const uint32_t left = num_held - first;
    return left < Capacity(rule) ? left : Capacity(rule);
  }

  // Thread t's part of it, of `threads`.
  SPARSEAGG_DEVICE void Clear(unsigned t, unsigned threads) {
    for (uint32_t w = t; w < kWords; w += threads) held[w] = 0;
  }
  SPARSEAGG_DEVICE void Hold(uint32_t row) { AtomicOr(&held[row / 32], uint32_t{1} << row % 32); }

  // Phases of the block. tell(t, num_held) is called on every thread, with Start(t, 0) done.
  template <unsigned kThreads, class Block, class Tell>
  SPARSEAGG_DEVICE void Rank(Block& block, const SlotRule& rule, const Tell& tell) {
    static_assert(kWords % kThreads == 0);
    constexpr uint32_t kWordsOfThread = kWords / kThreads;
    ScanBlock<kThreads>(
        block,
        [&](unsigned t, auto&) {
          uint64_t count = 0;
          for (uint32_t i = 0; i < kWordsOfThread; ++i) {
            count += static_cast<uint64_t>(PopulationCount(held[t * kWordsOfThread + i]));
          }
          return count;
        },
        [&](unsigned t, auto& local, uint64_t sum, uint64_t all) {
          for (uint32_t i = 0; i < kWordsOfThread; ++i) {
            const uint32_t w = t * kWordsOfThread + i;
            before[w] = static_cast<uint16_t>(sum);
            sum += static_cast<uint64_t>(PopulationCount(held[w]));
          }
          if (t == 0) num_held = static_cast<uint32_t>(all);
          Start<kThreads>(t, rule, 0, static_cast<uint32_t>(all));
          tell(t, local, static_cast<uint32_t>(all));
        });
  }

  // Thread t's part of it: slots for held rows [first, first + Capacity()), of `all`.
  template <unsigned kThreads>
  SPARSEAGG_DEVICE void Start(unsigned t, const SlotRule& rule, uint32_t first, uint32_t all) {
    constexpr uint32_t kWordsOfThread = kWords / kThreads;
    const uint32_t capacity = Capacity(rule);
    const uint32_t places = all - first < capacity ? all - first : capacity;
    for (uint32_t i = t; i < places * rule.slots(); i += kThreads) {
      for (auto& limb : limbs) limb[i] = 0;
    }
    for (uint32_t w = t * kWordsOfThread; w < (t + 1) * kWordsOfThread; ++w) {
      uint32_t place = before[w] - first;  // of rows before `first`: beyond all places
      for (uint32_t bits = held[w]; bits != 0; bits &= bits - 1, ++place) {
        if (place >= places) continue;
        rows[place] = static_cast<uint16_t>(w * 32 + CountTrailingZeros(bits));
      }
    }
  }

  // The place of a held row when those from `first` on have places; not below Capacity() for one
  // that has none.
  SPARSEAGG_DEVICE uint32_t PlaceOf(uint32_t row, uint32_t first) const {
    const uint32_t below = held[row / 32] & ((uint32_t{1} << row % 32) - 1);
    return before[row / 32] + static_cast<uint32_t>(PopulationCount(below)) - first;
  }

  SPARSEAGG_DEVICE void Add(uint32_t slot, Int128 addend) {
    auto words = static_cast<UInt128>(addend);
    uint32_t carry = 0;
    for (uint32_t k = 0; k < kLimbs; ++k, words >>= 32) {
      const uint32_t word = static_cast<uint32_t>(words) + carry;
      if (word == 0) continue;  // an old carry goes on: the word was all ones, or there is none
      carry = AtomicAdd(&limbs[k][slot], word) + word < word ? 1 : 0;
    }
  }

  // One thread calls it.
  SPARSEAGG_DEVICE void Set(uint32_t slot, Int128 sum) {
    auto words = static_cast<UInt128>(sum);
    for (uint32_t k = 0; k < kLimbs; ++k, words >>= 32) {
      limbs[k][slot] = static_cast<uint32_t>(words);
    }
  }

  SPARSEAGG_DEVICE Int128 Slot(uint32_t slot) const {
    UInt128 sum = 0;
    for (uint32_t k = kLimbs; k-- > 0;) sum = sum << 32 | limbs[k][slot];
    return static_cast<Int128>(sum);
  }

  // Thread t's part of it: writes the rows that have places, those from `first` on, to
  // out_rows [num_held] and out_slots [num_held, slots()]. first_row: the tile's row 0.
  template <unsigned kThreads>
  SPARSEAGG_DEVICE void Write(unsigned t, const SlotRule& rule, uint32_t first, uint64_t first_row,
                              uint64_t* out_rows, Int128* out_slots) const {
    const uint32_t width = rule.slots();
    const uint32_t places = Places(rule, first);
    for (uint32_t i = t; i < places; i += kThreads) out_rows[first + i] = first_row + rows[i];
    Int128* const to = out_slots + uint64_t{first} * width;
    for (uint32_t i = t; i < places * width; i += kThreads) to[i] = Slot(i);
  }
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_TILES_TILE_SUMS_CUH_
