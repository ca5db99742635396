// Erases the payloads of a durable store in short transactions, so that other threads commit in
// between.
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

// Erases rows of the database and files; the caller updates the rounds in memory. Thread-safe.
class Eraser {
 public:
  // `database_mutex` guards `tables` and is locked for each transaction. All arguments must outlive
  // this object.
  Eraser(std::mutex& database_mutex, Tables& tables, PayloadFiles& files)
      : database_mutex_(database_mutex), tables_(tables), files_(files) {}

  // A round to erase: the contents of its updates if it was published, contents and updates if it
  // was aborted, everything if it was deleted.
  struct Leftover {
    int64_t round = 0;
    RoundPhase phase = RoundPhase::kDeleted;
    bool operator==(const Leftover&) const = default;
  };
  // Erases what `which` returns. Erasures run one at a time, and `which` is called after the
  // earlier ones have ended, so that the round it finds is not erased concurrently and its number
  // is not reused.
  absl::Status Erase(const std::function<std::optional<Leftover>()>& which);

  // AddLeftover() queues a leftover for EraseLeftovers(), which erases all queued leftovers until
  // the first error and keeps the rest for the next call.
  void AddLeftover(const Leftover& leftover);
  absl::Status EraseLeftovers();

  // Makes erasures pause for three times as long as they work from now on, because other threads
  // use the disk.
  void EnablePacing() { paced_ = true; }
  // Makes erasures end between two transactions, with CANCELLED.
  void Stop();

 private:
  absl::Status EraseLocked(const Leftover& leftover);
  absl::Status CheckNotStopped() const;
  void DeleteFile(uint64_t number);
  // Pauses after work that began at `start`. Call it without locks.
  void Rest(std::chrono::steady_clock::time_point start);
  absl::Status EraseContents(int64_t round);
  absl::Status EraseUpdates(int64_t round);
  absl::Status EraseRound(int64_t round);
  // Truncates the log, which has copies of what was erased, and returns the free pages to the file
  // system.
  absl::Status EmptyLog();

  std::mutex& database_mutex_;
  Tables& tables_;
  PayloadFiles& files_;
  bool log_has_copies_ = false;  // guarded by database_mutex_

  std::atomic<bool> paced_ = false;
  std::atomic<bool> stopped_ = false;
  std::mutex rest_mutex_;
  std::condition_variable rest_ends_;
  std::mutex erasing_mutex_;  // held for a whole erasure; locked before all others
  std::mutex leftovers_mutex_;
  std::vector<Leftover> leftovers_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_ERASER_H_
