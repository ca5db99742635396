// Counts the entries that a batch adds, in every build: a bug of the back end that loses entries,
// or adds some twice, ends its round and never becomes a result. It counts what kernels report to
// have consumed, once for each visit, which costs nothing beside the visit itself.
#ifndef SPARSEAGG_CPU_STATE_ENTRY_TALLY_H_
#define SPARSEAGG_CPU_STATE_ENTRY_TALLY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace sparseagg {

// Plans throw it; the aggregator turns it into a status that names the tensor.
class BrokenInvariant : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws BrokenInvariant unless both are equal.
inline void ExpectAdded(uint64_t added, uint64_t expected) {
  if (added == expected) return;
  throw BrokenInvariant(std::to_string(added) + " of " + std::to_string(expected) +
                        " entries were added");
}

// A count for each of several updates, or cursors. Add() is thread-safe.
class EntryTally {
 public:
  explicit EntryTally(size_t updates) : added_(updates) {}

  void Add(size_t update, uint64_t entries) {
    added_[update].fetch_add(entries, std::memory_order_relaxed);
  }
  // Throws BrokenInvariant unless `entries` of the update were added.
  void Expect(size_t update, uint64_t entries) const {
    ExpectAdded(added_[update].load(std::memory_order_relaxed), entries);
  }

 private:
  std::vector<std::atomic<uint64_t>> added_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_ENTRY_TALLY_H_
