// The audit log: who changed what, one JSON object per line, each with the SHA-256 of the line
// before it, so that a changed, removed or inserted line is detected. It has no values, indices or
// tokens.
//
//   {"n":7,"time":"2026-11-21T09:30:00.125Z","event":"round_sealed","tenant":"acme",
//    "round":"rounds/step-1","by":"fl-server","contributors":"12","prev":"5d41...9c2e"}
//
// A thread of the log writes and syncs the lines in order, soon after they are appended, so that
// callers never wait for the disk. While the disk is full or failing, up to kWaitingMax lines wait
// in memory; further ones are lost, and the next line that is written states how many.
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

  // Continues after the last whole line of the file. A partial line behind it, which a crash cut
  // off, is moved to the end of the file PATH.torn, and a line of the log records that.
  // PERMISSION_DENIED (AUDIT_UNWRITABLE), FAILED_PRECONDITION (AUDIT_IN_USE) if another server
  // writes the file, DATA_LOSS (AUDIT_BROKEN) if its last line is not a line of an audit log, or
  // there is no line end near its end.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const AuditOptions& options);
  // Writes the waiting lines, if the disk allows it.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Returns at once.
  void Append(std::string_view event, Fields fields);
  // Returns when every line appended so far is on the disk, or an attempt to write it has failed.
  void Flush();

  static constexpr size_t kWaitingMax = 10'000;

 private:
  struct Waiting {
    std::string event;
    std::string time;
    Fields fields;
  };

  AuditLog(AuditOptions options, int file);
  std::string Now() const;
  // The line that tells how many lines were lost. Resets that number; mutex_ is held.
  Waiting LinesLost(std::string time);
  void Work();
  // Writes and syncs lines. On an error the file is restored to its former length, at the latest
  // before the next write.
  absl::Status Write(std::deque<Waiting> lines);
  void ReportTrouble(const absl::Status& status);

  const AuditOptions options_;
  const int file_;
  // Used by the log's thread only.
  std::optional<uint64_t>
      partial_line_offset_;  // offset of a partial line that could not be removed
  uint64_t lines_ = 0;
  std::string last_hash_;
  bool failing_ = false;

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
  std::string last_hash;  // keep it elsewhere: otherwise lines removed at the end are not detected
  uint64_t torn_bytes = 0;  // of a partial last line
};
// NOT_FOUND (AUDIT_UNREADABLE); DATA_LOSS (AUDIT_BROKEN), which names the first line that is not
// well-formed or does not follow the line before it.
absl::StatusOr<AuditSummary> VerifyAuditLog(const std::string& path);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUDIT_AUDIT_LOG_H_
