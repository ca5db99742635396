// The bytes of a partial aggregate: refused, or read to one that is written as the same bytes, in
// memory that was asked for, and that a back end can merge.
#include <algorithm>
#include <string_view>

#include "base/status.h"
#include "service/engine/partial/round_partial.h"
#include "sparse/reference_backend.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

bool SameButDigest(std::string_view a, std::string_view b) {
  return a.size() == b.size() && a.substr(0, a.size() - 32) == b.substr(0, b.size() - 32);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  constexpr uint64_t kMemoryMax = uint64_t{16} << 20;
  const std::string_view bytes(reinterpret_cast<const char*>(data), data == nullptr ? 0 : size);
  uint64_t asked = 0;
  PartialReading reading;
  reading.reserve = [&](uint64_t memory) {
    asked = std::max(asked, memory);
    return memory <= kMemoryMax ? absl::OkStatus() : absl::ResourceExhaustedError("memory");
  };
  reading.check_digest = false;
  const absl::StatusOr<RoundPartial> read = ReadPartial(bytes, reading);
  if (!read.ok()) return 0;
  fuzz::Require(SameButDigest(WritePartial(*read), bytes),
                "a partial aggregate changes when rewritten");
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
