// The bytes of a partial aggregate: refused, or read to one that is written as the same bytes, in
// memory that was asked for, and that a back end can merge. A server cuts ranges of rows out of
// what it has stored: any range out of any bytes, and out of good ones the rows of the range.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/status.h"
#include "service/engine/partial/partial_slices.h"
#include "service/engine/partial/round_partial.h"
#include "sparse/reference_backend.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace sparseagg;

bool SameButDigest(std::string_view a, std::string_view b) {
  return a.size() == b.size() && a.substr(0, a.size() - 32) == b.substr(0, b.size() - 32);
}

uint64_t RowsIn(const RoundPartial& partial) {
  uint64_t rows = 0;
  for (const Partial& tensor : partial.tensors) rows += tensor.rows.size();
  return rows;
}

std::string Joined(const PartialSlices& cut) {
  std::string bytes;
  while (bytes.size() < cut.size()) bytes += cut.Piece(bytes.size(), 100);
  return bytes;
}

// A range that the last bytes name, which are the digest's and so may be any.
RowRange NamedRange(std::string_view bytes) {
  constexpr size_t kBytes = 24;
  const std::string_view last = bytes.substr(bytes.size() - std::min(bytes.size(), kBytes));
  fuzz::FuzzInput input(reinterpret_cast<const uint8_t*>(last.data()), last.size());
  RowRange range;
  for (RowPosition* position : {&range.first, &range.end}) {
    position->tensor = input.Take<uint32_t>();
    position->row = input.Take<uint64_t>();
  }
  return range;
}

// Nothing is known of the bytes.
void CutHostileBytes(std::string_view bytes) {
  constexpr uint32_t kLastTensor = ~uint32_t{0};
  constexpr uint64_t kLastRow = ~uint64_t{0};
  const RowRange named = NamedRange(bytes);
  for (const RowRange& range :
       {named, RowRange{named.end, named.first}, kNoRows, RowRange{{0, 0}, {kLastTensor, kLastRow}},
        RowRange{{kLastTensor, kLastRow}, {0, 0}}}) {
    const auto cut = CutPartial(bytes, range);
    if (!cut.ok()) continue;
    fuzz::Require(cut->size() <= bytes.size(), "a cut has more bytes than the whole");
    fuzz::Require(Joined(*cut).size() == cut->size(), "the pieces of a cut are not all of it");
  }
}

// `bytes` are those of `read`.
void CutGoodBytes(std::string_view bytes, const RowRange& named, const RoundPartial& read) {
  const auto tensors = static_cast<uint32_t>(read.specs.size());
  const auto all = CutPartial(bytes, {{0, 0}, {tensors, 0}});
  fuzz::Require(all.ok() && Joined(*all) == bytes, "a cut of all rows is another");
  // Both sides of a boundary: valid, of the same updates, and together all rows.
  const uint64_t slice = named.first.row >> (16 + named.end.row % 48);
  const RowPosition middle = {named.first.tensor % (tensors + 1), slice << 16};
  uint64_t rows = 0;
  for (const RowRange& range : {RowRange{{0, 0}, middle}, RowRange{middle, {tensors, 0}}}) {
    const auto cut = CutPartial(bytes, range);
    fuzz::Require(cut.ok(), "a range is not cut out of good bytes");
    const std::string part = Joined(*cut);
    const auto again = ReadPartial(part, {});
    fuzz::Require(again.ok(), "a cut is not read");
    fuzz::Require(WritePartial(*again) == part, "a cut changes when rewritten");
    fuzz::Require(again->covered.size() == read.covered.size(), "a cut covers other updates");
    rows += RowsIn(*again);
  }
  fuzz::Require(rows == RowsIn(read), "the parts do not have the rows of the whole");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMemoryMax = uint64_t{16} << 20;
  const std::string_view bytes(reinterpret_cast<const char*>(data), data == nullptr ? 0 : size);
  CutHostileBytes(bytes);
  uint64_t asked = 0;
  PartialReading reading;
  reading.reserve = [&](uint64_t memory) {
    asked = std::max(asked, memory);
    return memory <= kMemoryMax ? absl::OkStatus() : absl::ResourceExhaustedError("memory");
  };
  reading.check_digest = false;
  const absl::StatusOr<RoundPartial> read = ReadPartial(bytes, reading);
  if (!read.ok()) return 0;
  const std::string written = WritePartial(*read);
  fuzz::Require(SameButDigest(written, bytes), "a partial aggregate changes when rewritten");
  CutGoodBytes(written, NamedRange(bytes), *read);
  fuzz::Require(MemoryBytes(*read) <= 2 * asked + (1 << 20), "memory was taken without asking");
  for (size_t i = 0; i < read->tensors.size(); ++i) {
    const auto backend = *MakeReferenceBackend({});
    const Partial& tensor = read->tensors[i];
    const auto plan = MakePlan(tensor.spec, Workload{}, backend->info());
    fuzz::Require(plan.ok(), "no plan");
    const auto aggregator = *backend->NewAggregator(*plan);
    if (!aggregator->Merge(tensor).ok()) continue;  // too many addends
    RoundPartial merged = *read;
    const auto snapshot = aggregator->Snapshot();
    fuzz::Require(snapshot.ok(), "no snapshot");
    merged.tensors[i] = *snapshot;
    fuzz::Require(SameButDigest(WritePartial(merged), bytes),
                  "merging changes a partial aggregate");
  }
  return 0;
}
