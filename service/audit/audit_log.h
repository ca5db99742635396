// The audit log: who changed what, one JSON object a line, each with the SHA-256 of the line before
// it, so that a line that was changed, taken out or put in shows. No values, indices or tokens.
//
//   {"n":7,"time":"2026-11-21T09:30:00.125Z","event":"round_sealed","tenant":"acme",
//    "round":"rounds/step-1","by":"fl-server","contributors":"12","prev":"5d41...9c2e"}
//
// Lines are written and synced by a thread of the log's own, in order, soon after they are
// appended; nobody waits for the disk. While it is full or failing, lines wait in memory, up to
// kWaitingMax; how many were lost beyond that is in the line that follows them.
#ifndef SPARSEAGG_SERVICE_AUDIT_AUDIT_LOG_H_
#define SPARSEAGG_SERVICE_AUDIT_AUDIT_LOG_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace sparseagg {

struct AuditOptions {
  std::string path;
  std::function<std::chrono::system_clock::time_point()> now = [] {
    return std::chrono::system_clock::now();
  };
  // Called from the log's thread when writing begins to fail, and when it works again (OK).
  std::function<void(const absl::Status&)> on_trouble = [](const absl::Status&) {};
  // Between two attempts to write.
  std::chrono::milliseconds retry_interval{1000};
};

// Thread-safe.
class AuditLog {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  // Goes on behind the last whole line of the file; what follows it, a line that a crash cut off,
  // is moved to the end of the file with ".torn" behind its name and told in a line of its own.
  // PERMISSION_DENIED (AUDIT_UNWRITABLE), FAILED_PRECONDITION (AUDIT_IN_USE) when another server
  // writes it, DATA_LOSS (AUDIT_BROKEN) when its last line is none of a log, or it has none near
  // its end.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const AuditOptions& options);
  // Writes what waits, if it can be written.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Returns at once.
  void Append(std::string_view event, Fields fields);
  // Returns when everything appended so far is on the disk, or cannot be written now.
  void Flush();

  static constexpr size_t kWaitingMax = 10'000;

 private:
  struct Waiting {
    std::string event;
    std::string time;
    Fields fields;
  };

  AuditLog(AuditOptions options, int file);
  void Work();
  // Writes and syncs lines; on an error the file is as it was before, or will be before the next.
  absl::Status Write(std::deque<Waiting> lines);
  void Tell(const absl::Status& status);

  const AuditOptions options_;
  const int file_;
  // Of the thread.
  std::optional<uint64_t> part_at_;  // where a part of a line stands that could not be cut off
  uint64_t lines_ = 0;
  std::string last_hash_;
  bool in_trouble_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  uint64_t lost_ = 0;
  uint64_t attempts_ = 0;  // of writing
  bool writing_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last
};

struct AuditSummary {
  uint64_t lines = 0;
  std::string last_hash;    // keep it elsewhere: lines cut off at the end do not show otherwise
  uint64_t torn_bytes = 0;  // of a last line that a crash cut off
};
// NOT_FOUND (AUDIT_UNREADABLE); DATA_LOSS (AUDIT_BROKEN) names the first line that is not what was
// written, or does not follow the one before it.
absl::StatusOr<AuditSummary> VerifyAuditLog(const std::string& path);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUDIT_AUDIT_LOG_H_
