// Erases the payloads of a durable store, in transactions so short that others commit between two.
#ifndef SPARSEAGG_SERVICE_STORE_ERASER_H_
#define SPARSEAGG_SERVICE_STORE_ERASER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "service/store/files/payload_files.h"
#include "service/store/store.h"
#include "service/store/tables.h"

namespace sparseagg {

// Thread-safe. Database and files; the books are the caller's.
class Eraser {
 public:
  // `database_mutex` guards `tables` and is taken for each transaction. All must outlive this.
  Eraser(std::mutex& database_mutex, Tables& tables, PayloadFiles& files)
      : database_mutex_(database_mutex), tables_(tables), files_(files) {}

  // A round that was published: what its updates carry; aborted: that and the updates; deleted:
  // everything about it.
  struct Leftover {
    int64_t round = 0;
    RoundPhase phase = RoundPhase::kDeleted;
    bool operator==(const Leftover&) const = default;
  };
  // One erasure at a time: `which` is asked for when the ones before have ended, so that what it
  // finds in the books is not erased meanwhile, nor its number given to another round.
  absl::Status Erase(const std::function<std::optional<Leftover>()>& which);

  // For EraseLeftovers(), which erases what was left until it meets an error. The rest stays for
  // the next call.
  void Leave(const Leftover& leftover);
  absl::Status EraseLeftovers();

  // From now on others use the same disk: erasures rest three times as long as they work.
  void Pace() { paced_ = true; }
  // Erasures end between two transactions, with CANCELLED.
  void Stop();

 private:
  absl::Status EraseLocked(const Leftover& leftover);
  absl::Status CheckGoesOn() const;
  void DeleteFile(uint64_t number);
  // After work that began at `start`, without locks.
  void Rest(std::chrono::steady_clock::time_point start);
  absl::Status EraseContents(int64_t round);
  absl::Status EraseUpdates(int64_t round);
  absl::Status EraseRound(int64_t round);
  // The log has copies of what was erased, and the database its place.
  absl::Status EmptyLog();

  std::mutex& database_mutex_;
  Tables& tables_;
  PayloadFiles& files_;
  bool log_has_copies_ = false;  // by database_mutex_

  std::atomic<bool> paced_ = false;
  std::atomic<bool> stopped_ = false;
  std::mutex rest_mutex_;
  std::condition_variable rest_ends_;
  std::mutex erasing_mutex_;  // of one erasure at a time; before all others
  std::mutex leftovers_mutex_;
  std::vector<Leftover> leftovers_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_ERASER_H_
