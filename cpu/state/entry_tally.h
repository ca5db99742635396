// Books of the entries that a batch adds, always kept: a fault of the back end that loses entries,
// or adds some twice, ends its round and never becomes a result. They count what kernels say that
// they consumed, once for each visit: nothing beside what a visit takes.
#ifndef SPARSEAGG_CPU_STATE_ENTRY_TALLY_H_
#define SPARSEAGG_CPU_STATE_ENTRY_TALLY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace sparseagg {

// Thrown by plans; the aggregator makes a status of it that names the tensor.
class BrokenInvariant : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws BrokenInvariant unless both are the same.
inline void ExpectAdded(uint64_t added, uint64_t expected) {
  if (added == expected) return;
  throw BrokenInvariant(std::to_string(added) + " of " + std::to_string(expected) +
                        " entries were added");
}

// Of several updates, or cursors. Add() is thread-safe.
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
