// In: a batch. Out: a run, rows [size] and slots [size, slots()].
//
// One thread an entry packs a word: row, update, and the entry's number in the update. A radix sort
// over the top bits of the row, as many as make spans of about 4096 entries (15 for 10^8, two
// passes), brings those of a span together. A block of 512 threads takes spans by ticket and sums
// each in shared memory, as tile_merge.cu sums tiles: bits of held rows, places, 32-bit atomics,
// look-back, results to their final place. The word says where the value is, without a search.
//
// Spans of more than kHeavyEntries entries (skew) are summed before that by a block for each
// kHeavyEntries positions of the sorted words: each sums what it has of a span in shared memory,
// and adds that to slots of all rows of the span in device memory. A position range of that size
// has parts of two such spans at most, and no two of them begin in the same one, so the range where
// a span begins numbers it. A row that all entries have costs one atomic in device memory for each
// range.
//
// Bytes an entry: 16 to pack, 16 for each 8 bits of the sort and 8 for its histograms, 8 for the
// word, a gathered sector of 32 for the value; 8 + 16 * slots() for each row of the result, once.
// At 10^8 entries of f32 in 10^9 rows: 1.6 + 3.2 + 0.8 + 0.8 + 3.2 + 2.3 GB. Values do not travel
// in the words: each update has a weight of its own, and a product takes 48 bits. Memory: two words
// an entry; for heavy spans up to 8 * slots() bytes an entry, of which those that there are are
// cleared. Shared memory 88 KB: two blocks on a multiprocessor of 228 KB.
#include <algorithm>

#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/look_back.cuh"
#include "cuda/kernels/launch/search.cuh"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sort/bucket_sums.h"
#include "cuda/kernels/sort/device_sort.h"
#include "cuda/kernels/tiles/tile_sums.cuh"

namespace sparseagg::gpu {
namespace {

// Of a span, on average; where there are fewer a sort of all bits is faster.
constexpr uint64_t kSpanEntriesMin = 1024;
constexpr uint64_t kSpanEntriesMeant = 4096;

// row | update | entry of the update, and how many of the row's bits a span leaves open.
struct WordLayout {
  int row_bits;
  int update_bits;
  int entry_bits;
  int span_bits;

  int used_bits() const { return row_bits + update_bits + entry_bits; }
  SPARSEAGG_HOST_DEVICE int payload_bits() const { return update_bits + entry_bits; }
  SPARSEAGG_HOST_DEVICE uint32_t SpanRows() const { return uint32_t{1} << span_bits; }
  SPARSEAGG_HOST_DEVICE uint32_t SpanWords() const { return (SpanRows() + 31) / 32; }
  SPARSEAGG_HOST_DEVICE uint64_t Word(uint64_t row, uint64_t update, uint64_t entry) const {
    return (row << update_bits | update) << entry_bits | entry;
  }
  SPARSEAGG_HOST_DEVICE uint64_t Span(uint64_t word) const {
    return word >> payload_bits() >> span_bits;
  }
  SPARSEAGG_HOST_DEVICE uint32_t RowOfSpan(uint64_t word) const {
    return static_cast<uint32_t>(word >> payload_bits()) & (SpanRows() - 1);
  }
  SPARSEAGG_HOST_DEVICE uint64_t Update(uint64_t word) const {
    return word >> entry_bits & ((uint64_t{1} << update_bits) - 1);
  }
  SPARSEAGG_HOST_DEVICE uint64_t Entry(uint64_t word) const {
    return word & ((uint64_t{1} << entry_bits) - 1);
  }
};

struct Pack {
  BatchView batch;
  WordLayout layout;
  uint64_t* words;

  SPARSEAGG_DEVICE void operator()(uint64_t e) const {
    const uint32_t u = SourceOf(batch, e);
    const UpdateRef& update = batch.updates[u];
    words[e] = layout.Word(update.rows[e - update.first], u, e - update.first);
  }
};

// first[span]: the first word that is not of a span before it.
struct FindSpans {
  WordLayout layout;
  const uint64_t* words;
  uint64_t size;
  uint64_t* first;  // [spans + 1]

  SPARSEAGG_DEVICE void operator()(uint64_t span) const {
    uint64_t low = 0;
    for (uint64_t high = size; low < high;) {
      const uint64_t middle = low + (high - low) / 2;
      if (layout.Span(words[middle]) < span) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    first[span] = low;
  }
};

// Slots and bits of all rows of the heavy spans, by the range in which each begins.
struct HeavySpans {
  const uint64_t* first;  // [spans + 1]
  Int128* slots;          // [ranges, SpanRows(), slots()]
  uint32_t* held;         // [ranges, SpanWords()]

  SPARSEAGG_DEVICE bool IsHeavy(uint64_t span) const {
    return first[span + 1] - first[span] > kHeavyEntries;
  }
  SPARSEAGG_DEVICE uint64_t IndexOf(uint64_t span) const { return first[span] / kHeavyEntries; }
};

constexpr unsigned kBucketThreads = 512;

// What a block does with the words of a span: positions [begin, end) of `words`, 4096 at a time.
template <class V>
struct SpanWords {
  static constexpr uint32_t kItems = 8;
  static constexpr uint32_t kPositions = kBucketThreads * kItems;
  struct Local {
    uint64_t words[kItems];
  };

  BatchView batch;
  SlotRule rule;
  WordLayout layout;
  const uint64_t* words;

  // Sets the bits of their rows. Returns whether all words are in registers then.
  template <class Block>
  SPARSEAGG_DEVICE bool Mark(Block& block, TileSums& sums, uint64_t begin, uint64_t end) const {
    return Walk(block, begin, end, false, [&](unsigned t, Local& local, uint32_t size) {
      for (uint32_t i = 0; i < kItems; ++i) {
        if (i * kBucketThreads + t < size) sums.Hold(layout.RowOfSpan(local.words[i]));
      }
    });
  }

  // Adds the entries of the rows that have places, those from held row `first_held` on.
  template <class Block>
  SPARSEAGG_DEVICE void Add(Block& block, TileSums& sums, uint64_t begin, uint64_t end,
                            uint32_t first_held, bool in_registers) const {
    Walk(block, begin, end, in_registers, [&](unsigned t, Local& local, uint32_t size) {
      if (size == 0) return;
      V values[kItems];
      float weights[kItems];
      for (uint32_t i = 0; i < kItems; ++i) {
        const UpdateRef& update = batch.updates[layout.Update(local.words[i])];
        weights[i] = update.weight;
        if (rule.value_slots() == 0) continue;
        values[i] =
            LoadConstant(static_cast<const V*>(update.values) + layout.Entry(local.words[i]));
      }
      for (uint32_t i = 0; i < kItems; ++i) {
        if (i * kBucketThreads + t >= size) continue;
        AddEntry(sums, first_held, layout.RowOfSpan(local.words[i]), values[i], weights[i]);
      }
    });
  }

 private:
  // Calls work(t, local, size) for each round of `size` positions. Returns whether there was one.
  template <class Block, class Work>
  SPARSEAGG_DEVICE bool Walk(Block& block, uint64_t begin, uint64_t end, bool is_loaded,
                             const Work& work) const {
    uint64_t first = begin;
    do {
      const uint64_t left = end - first;
      const auto size = static_cast<uint32_t>(left < kPositions ? left : kPositions);
      block.Each([&](unsigned t, Local& local) {
        if (!is_loaded && size != 0) Load(t, first, size, local);
        work(t, local, size);
      });
      first += kPositions;
    } while (first < end);
    return first - begin == kPositions;
  }

  // No branch, so that all loads are on their way before the first is waited for.
  SPARSEAGG_DEVICE void Load(unsigned t, uint64_t first, uint32_t size, Local& local) const {
    for (uint32_t i = 0; i < kItems; ++i) {
      const uint32_t p = i * kBucketThreads + t;
      local.words[i] = LoadConstant(words + first + (p < size ? p : size - 1));
    }
  }

  SPARSEAGG_DEVICE void AddEntry(TileSums& sums, uint32_t first_held, uint32_t row, V value,
                                 float weight) const {
    const uint32_t place = sums.PlaceOf(row, first_held);
    if (place >= TileSums::Capacity(rule)) return;
    const uint32_t slot = place * rule.slots();
    if (rule.value_slots() != 0) sums.Add(slot, FixedProduct(value, weight, rule.lsb));
    if (rule.row != RowSlot::kNone) {
      sums.Add(slot + rule.value_slots(), RowAddend(rule, weight));
    }
  }
};

// Clears the slots and bits of the heavy span that begins in the block's range, if one does.
struct ClearHeavy {
  static constexpr unsigned kThreads = 256;
  struct Shared {
    uint64_t span;
  };
  struct Local {};
  uint64_t spans;
  uint32_t rows;
  uint32_t width;
  HeavySpans heavy;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      if (t != 0) return;
      // The last span that begins before the range's end is the only one that may go beyond it.
      const uint64_t end = (block.index + 1) * kHeavyEntries;
      shared.span = LowerBound(heavy.first, spans, end) - 1;
    });
    const uint64_t span = shared.span;
    if (!heavy.IsHeavy(span) || heavy.IndexOf(span) != block.index) return;
    block.Each([&](unsigned t, Local&) {
      const uint64_t slots = uint64_t{rows} * width;
      for (uint64_t i = t; i < slots; i += kThreads) heavy.slots[block.index * slots + i] = 0;
      const uint32_t words = (rows + 31) / 32;
      for (uint32_t i = t; i < words; i += kThreads) heavy.held[block.index * words + i] = 0;
    });
  }
};

// A block for each range of kHeavyEntries positions adds what it has of heavy spans.
template <class V>
struct SumHeavy {
  static constexpr unsigned kThreads = kBucketThreads;
  static constexpr unsigned kBlocksOfMultiprocessor = 2;
  using Local = typename SpanWords<V>::Local;
  using Shared = TileSums;

  SpanWords<V> source;
  uint64_t size;  // of the words
  HeavySpans heavy;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    const uint64_t begin = block.index * kHeavyEntries;
    const uint64_t end = begin + kHeavyEntries < size ? begin + kHeavyEntries : size;
    const uint64_t first_span = source.layout.Span(source.words[begin]);
    const uint64_t last_span = source.layout.Span(source.words[end - 1]);
    AddPart(block, first_span, begin, end);
    if (last_span != first_span) AddPart(block, last_span, begin, end);
  }

 private:
  template <class Block>
  SPARSEAGG_DEVICE void AddPart(Block& block, uint64_t span, uint64_t range_begin,
                                uint64_t range_end) const {
    if (!heavy.IsHeavy(span)) return;
    Shared& sums = block.shared;
    const SlotRule& rule = source.rule;
    const uint64_t begin = heavy.first[span] > range_begin ? heavy.first[span] : range_begin;
    const uint64_t end = heavy.first[span + 1] < range_end ? heavy.first[span + 1] : range_end;
    block.Each([&](unsigned t, Local&) { sums.Clear(t, kThreads); });
    const bool in_registers = source.Mark(block, sums, begin, end);
    sums.template Rank<kThreads>(block, rule, [](unsigned, Local&, uint32_t) {});
    uint32_t first = 0;
    do {
      if (first != 0) {
        block.Each([&](unsigned t, Local&) {
          sums.template Start<kThreads>(t, rule, first, sums.num_held);
        });
      }
      source.Add(block, sums, begin, end, first, in_registers);
      block.Each([&](unsigned t, Local&) { Flush(sums, t, heavy.IndexOf(span), first); });
      first += TileSums::Capacity(rule);
    } while (first < sums.num_held);
  }

  SPARSEAGG_DEVICE void Flush(const TileSums& sums, unsigned t, uint64_t index,
                              uint32_t first) const {
    const uint32_t width = source.rule.slots();
    const uint32_t places = sums.Places(source.rule, first);
    const uint32_t words = source.layout.SpanWords();
    Int128* const slots = heavy.slots + index * source.layout.SpanRows() * width;
    for (uint32_t i = t; i < places * width; i += kThreads) {
      AtomicAddSlot(slots + sums.rows[i / width] * width + i % width, sums.Slot(i));
    }
    for (uint32_t w = t; first == 0 && w < words; w += kThreads) {
      if (sums.held[w] != 0) AtomicOr(&heavy.held[index * words + w], sums.held[w]);
    }
  }
};

template <class V>
struct SumSpans {
  static constexpr unsigned kThreads = kBucketThreads;
  static constexpr unsigned kBlocksOfMultiprocessor = 2;
  using Local = typename SpanWords<V>::Local;
  struct Shared {
    TileSums sums;
    LookBackMemory look_back;
    uint64_t next;  // the span after this one
  };

  SpanWords<V> source;
  uint64_t spans;
  HeavySpans heavy;
  TileStates states;
  RunOutput out;

  template <class Block>
  SPARSEAGG_DEVICE void Run(Block& block) const {
    Shared& shared = block.shared;
    TileSums& sums = shared.sums;
    block.Each([&](unsigned t, Local&) {
      if (t == 0) shared.next = states.TakeTile();
    });
    for (uint64_t span = shared.next; span < spans; span = shared.next) {
      const bool in_registers = Mark(block, span);
      sums.template Rank<kThreads>(block, source.rule, [&](unsigned t, Local&, uint32_t num_held) {
        if (t != 0) return;
        states.Publish(span, num_held);
        shared.next = states.TakeTile();
      });
      uint32_t first = 0;
      do {
        if (first != 0) {
          block.Each([&](unsigned t, Local&) {
            sums.template Start<kThreads>(t, source.rule, first, sums.num_held);
          });
        }
        if (out.rows != nullptr) Add(block, span, first, in_registers);
        if (first == 0) states.Before(block, span, sums.num_held, shared.look_back);
        if (out.rows != nullptr) Write(block, span, first);
        first += TileSums::Capacity(source.rule);
      } while (first < sums.num_held);
      if (span + 1 == spans) TellNumber(block);
    }
  }

 private:
  template <class Block>
  SPARSEAGG_DEVICE bool Mark(Block& block, uint64_t span) const {
    TileSums& sums = block.shared.sums;
    const bool is_heavy = heavy.IsHeavy(span);
    block.Each([&](unsigned t, Local&) {
      if (!is_heavy) return sums.Clear(t, kThreads);
      const uint32_t words = source.layout.SpanWords();
      const uint32_t* const held = heavy.held + heavy.IndexOf(span) * words;
      for (uint32_t w = t; w < TileSums::kWords; w += kThreads) {
        sums.held[w] = w < words ? held[w] : 0;
      }
    });
    return !is_heavy && source.Mark(block, sums, heavy.first[span], heavy.first[span + 1]);
  }

  template <class Block>
  SPARSEAGG_DEVICE void Add(Block& block, uint64_t span, uint32_t first, bool in_registers) const {
    TileSums& sums = block.shared.sums;
    if (!heavy.IsHeavy(span)) {
      return source.Add(block, sums, heavy.first[span], heavy.first[span + 1], first, in_registers);
    }
    block.Each([&](unsigned t, Local&) {
      const uint32_t width = source.rule.slots();
      const uint32_t places = sums.Places(source.rule, first);
      const Int128* const slots =
          heavy.slots + heavy.IndexOf(span) * source.layout.SpanRows() * width;
      for (uint32_t i = t; i < places * width; i += kThreads) {
        sums.Set(i, slots[sums.rows[i / width] * width + i % width]);
      }
    });
  }

  template <class Block>
  SPARSEAGG_DEVICE void Write(Block& block, uint64_t span, uint32_t first) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      const uint64_t before = shared.look_back.before;
      shared.sums.template Write<kThreads>(t, source.rule, first, span << source.layout.span_bits,
                                           out.rows + before,
                                           out.slots + before * source.rule.slots());
    });
  }

  // After the last span.
  template <class Block>
  SPARSEAGG_DEVICE void TellNumber(Block& block) const {
    Shared& shared = block.shared;
    block.Each([&](unsigned t, Local&) {
      if (t == 0) *out.number = shared.look_back.before + shared.sums.num_held;
    });
  }
};

WordLayout LayoutFor(const BatchView& batch, const SlotRule& rule) {
  const int row_bits = BitsBelow(batch.num_rows);
  const uint64_t entries_max = batch.update_nnz_max != 0 ? batch.update_nnz_max : batch.nnz;
  const int sorted_bits = std::clamp(BitsBelow(batch.nnz * rule.slots() / kSpanEntriesMeant),
                                     std::max(0, row_bits - TileSums::kRowBits), row_bits);
  return {row_bits, BitsBelow(batch.num_updates), BitsBelow(entries_max), row_bits - sorted_bits};
}

uint64_t SpansOf(const BatchView& batch, const WordLayout& layout) {
  return ((batch.num_rows - 1) >> layout.span_bits) + 1;
}

}  // namespace

bool CanSumBuckets(const BatchView& batch, const SlotRule& rule) {
  if (batch.width != 1 || rule.extreme()) return false;
  if (rule.row != RowSlot::kNone && batch.order != EntryOrder::kCanonical) return false;
  const WordLayout layout = LayoutFor(batch, rule);
  return layout.used_bits() <= 64 && SpansOf(batch, layout) <= batch.nnz / kSpanEntriesMin + 1;
}

SlotRun SumBuckets(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  const WordLayout layout = LayoutFor(batch, rule);
  const uint64_t spans = SpansOf(batch, layout);
  DeviceArray<uint64_t> words(queue, batch.nnz);
  ForEach(queue, batch.nnz, Pack{batch, layout, words.data()});
  if (layout.span_bits < layout.row_bits) {
    SortWords(queue, words, static_cast<uint32_t>(batch.nnz),
              layout.payload_bits() + layout.span_bits, layout.used_bits());
  }
  DeviceArray<uint64_t> first(queue, spans + 1);
  ForEach(queue, spans + 1, FindSpans{layout, words.data(), batch.nnz, first.data()});

  const uint64_t ranges = (batch.nnz + kHeavyEntries - 1) / kHeavyEntries;
  const uint64_t heavy_ranges = ranges > 1 ? ranges : 0;
  DeviceArray<Int128> slots(queue, heavy_ranges * layout.SpanRows() * rule.slots());
  DeviceArray<uint32_t> held(queue, heavy_ranges * layout.SpanWords());
  const HeavySpans heavy{first.data(), slots.data(), held.data()};
  ForEachBlock(queue, heavy_ranges, ClearHeavy{spans, layout.SpanRows(), rule.slots(), heavy});
  SlotRun run;
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    static_assert(sizeof(typename SumSpans<V>::Shared) <= TileSums::kSharedMax);
    const SpanWords<V> source{batch, rule, layout, words.data()};
    ForEachBlock(queue, heavy_ranges, SumHeavy<V>{source, batch.nnz, heavy});
    run = FillRun(queue, rule, std::min(batch.nnz, batch.num_rows), [&](const RunOutput& out) {
      const DeviceArray<uint64_t> states = MakeTileStates(queue, spans);
      ForEachBlock(queue, BlocksFor(spans),
                   SumSpans<V>{source, spans, heavy, {states.data()}, out});
    });
  });
  return run;
}

}  // namespace sparseagg::gpu
