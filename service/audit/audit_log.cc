#include "service/audit/audit_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "service/audit/audit_line.h"

namespace sparseagg {
namespace {

absl::Status Unwritable(const std::string& path, int error) {
  return MakeError(absl::StatusCode::kPermissionDenied, "AUDIT_UNWRITABLE",
                   absl::StrCat("cannot write the audit log ", path, ": ", std::strerror(error)));
}

absl::Status Broken(const std::string& path) {
  return MakeError(
      absl::StatusCode::kDataLoss, "AUDIT_BROKEN",
      absl::StrCat("the last line of ", path,
                   " is not a line of an audit log; inspect the file and move it away"));
}

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = write(file, text.data(), text.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return false;
    text.remove_prefix(static_cast<size_t>(bytes));
  }
  return true;
}

// Truncates the file to `end` bytes if it is longer.
bool Cut(int file, uint64_t end) {
  struct stat status = {};
  if (fstat(file, &status) != 0) return false;
  return static_cast<uint64_t>(status.st_size) <= end ||
         ftruncate(file, static_cast<off_t>(end)) == 0;
}

// The last line of a file, and what follows it.
struct End {
  uint64_t whole_bytes = 0;  // the end of the last whole line
  std::string last_line;
  std::string torn;  // the bytes behind it
};

absl::StatusOr<End> ReadEnd(int file, uint64_t size, const std::string& path) {
  constexpr uint64_t kLineMax = 1 << 20;
  std::string text(std::min(size, 2 * kLineMax), '\0');
  if (pread(file, text.data(), text.size(), static_cast<off_t>(size - text.size())) !=
      static_cast<ssize_t>(text.size())) {
    return Unwritable(path, errno);
  }
  const size_t end = text.rfind('\n');
  if (end == std::string::npos) {
    constexpr std::string_view kFirstLine = "{\"n\":1,\"time\":\"";
    const bool is_first = text.starts_with(kFirstLine) || kFirstLine.starts_with(text);
    if (size > kLineMax || !is_first) return Broken(path);
    return End{.torn = std::move(text)};
  }
  const size_t begin = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const size_t first = begin == std::string::npos ? 0 : begin + 1;
  return End{size - text.size() + end + 1, text.substr(first, end - first), text.substr(end + 1)};
}

// Keeps a partial line, which may still be informative.
absl::Status KeepTorn(const std::string& path, const std::string& torn) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (file < 0) return Unwritable(path, errno);
  const bool kept = WriteAll(file, torn) && fsync(file) == 0;
  const int error = errno;
  close(file);
  return kept ? absl::OkStatus() : Unwritable(path, error);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const AuditOptions& options) {
  const int file = open(options.path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (file < 0) return Unwritable(options.path, errno);
  // Owns the descriptor from here on.
  std::unique_ptr<AuditLog> log(new AuditLog(options, file));
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "AUDIT_IN_USE",
                     absl::StrCat("another process is writing the audit log ", options.path));
  }
  struct stat status = {};
  if (fstat(file, &status) != 0) return Unwritable(options.path, errno);
  const auto size = static_cast<uint64_t>(status.st_size);
  SPARSEAGG_ASSIGN_OR_RETURN(const End end, ReadEnd(file, size, options.path));
  if (end.whole_bytes > 0) {
    const auto link = ParseAuditLine(end.last_line);
    if (!link) return Broken(options.path);
    log->lines_ = link->number;
    log->last_hash_ = HashOf(end.last_line);
  }
  if (!end.torn.empty()) {
    SPARSEAGG_RETURN_IF_ERROR(KeepTorn(options.path + ".torn", end.torn));
    if (!Cut(file, end.whole_bytes)) return Unwritable(options.path, errno);
    log->Append("torn_line_removed", {{"bytes", absl::StrCat(end.torn.size())}});
  }
  log->thread_ = std::thread([log = log.get()] { log->Work(); });
  return log;
}

AuditLog::AuditLog(AuditOptions options, int file)
    : options_(std::move(options)), file_(file), last_hash_(NoHash()) {}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    if (lost_ > 0) waiting_.push_back(LinesLost(Now()));
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  close(file_);
}

std::string AuditLog::Now() const {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromChrono(options_.now()),
                          absl::UTCTimeZone());
}

AuditLog::Waiting AuditLog::LinesLost(std::string time) {
  return {"lines_lost", std::move(time), {{"lines", absl::StrCat(std::exchange(lost_, 0))}}};
}

void AuditLog::Append(std::string_view event, Fields fields) {
  std::string time = Now();
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() + (lost_ > 0 ? 1 : 0) >= kWaitingMax) {
      ++lost_;
      return;
    }
    if (lost_ > 0) waiting_.push_back(LinesLost(time));
    waiting_.push_back({std::string(event), std::move(time), std::move(fields)});
  }
  changed_.notify_all();
}

void AuditLog::Flush() {
  std::unique_lock lock(mutex_);
  // The current attempt may have begun before the last line was appended.
  const uint64_t enough = attempts_ + (writing_ ? 2 : 1);
  changed_.wait(lock, [&] { return (waiting_.empty() && !writing_) || attempts_ >= enough; });
}

void AuditLog::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::deque<Waiting> lines = waiting_;
    const bool last_attempt = stopping_;  // nothing is appended after it
    writing_ = true;
    lock.unlock();
    const absl::Status written = Write(lines);
    ReportTrouble(written);
    lock.lock();
    writing_ = false;
    ++attempts_;
    if (written.ok()) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(lines.size()));
    }
    changed_.notify_all();
    if (written.ok()) continue;
    if (last_attempt) return;
    changed_.wait_for(lock, options_.retry_interval, [this] { return stopping_; });
  }
}

absl::Status AuditLog::Write(std::deque<Waiting> lines) {
  std::string text;
  std::string hash = last_hash_;
  uint64_t number = lines_;
  for (Waiting& line : lines) {
    const std::string one = FormatAuditLine(
        {++number, std::move(line.time), std::move(line.event), std::move(line.fields), hash});
    hash = HashOf(one);
    absl::StrAppend(&text, one, "\n");
  }
  // The new lines must not follow a partial line.
  if (partial_line_offset_ && !Cut(file_, *partial_line_offset_))
    return Unwritable(options_.path, errno);
  partial_line_offset_.reset();
  struct stat before = {};  // another program may have truncated the file
  if (fstat(file_, &before) != 0) return Unwritable(options_.path, errno);
  if (!WriteAll(file_, text) || fdatasync(file_) != 0) {
    const int error = errno;
    const auto end = static_cast<uint64_t>(before.st_size);
    if (!Cut(file_, end)) partial_line_offset_ = end;
    return Unwritable(options_.path, error);
  }
  lines_ = number;
  last_hash_ = std::move(hash);
  return absl::OkStatus();
}

void AuditLog::ReportTrouble(const absl::Status& status) {
  if (status.ok() == !failing_) return;
  failing_ = !status.ok();
  options_.on_trouble(status);
}

}  // namespace sparseagg
