#include "service/audit/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/audit/audit_trail.h"
#include "tests/support/temporary_folder.h"

namespace {
std::atomic<bool> cutting_fails = false;
}  // namespace

// Instead of the C library's.
extern "C" int ftruncate(int file, off_t size) noexcept {
  if (!cutting_fails) return static_cast<int>(syscall(SYS_ftruncate, file, size));
  errno = EIO;
  return -1;
}

namespace sparseagg {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class AuditLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<AuditLog> Open() {
    AuditOptions options{.path = path_};
    options.now = [] { return std::chrono::system_clock::time_point(seconds(1'800'000'000)); };
    options.retry_interval = std::chrono::milliseconds(1);
    auto log = AuditLog::Open(options);
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }
  void WriteLines(int lines) {
    const auto log = Open();
    for (int i = 0; i < lines; ++i) log->Append("event", {{"i", absl::StrCat(i)}});
  }
  std::string Text() { return TextOf(path_); }
  static std::string TextOf(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::vector<nlohmann::json> Lines() {
    std::vector<nlohmann::json> lines;
    std::istringstream text(Text());
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  std::string Verify() {
    const auto summary = VerifyAuditLog(path_);
    return summary.ok() ? absl::StrCat(summary->lines, " lines, torn ", summary->torn_bytes)
                        : std::string(summary.status().message());
  }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/audit";
};

TEST_F(AuditLogTest, EachLineHasTheHashOfTheOneBefore) {
  WriteLines(3);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["prev"], std::string(64, '0'));
  EXPECT_EQ(lines[0]["n"], 1);
  EXPECT_EQ(lines[0]["time"], "2027-01-15T08:00:00.000Z");
  EXPECT_EQ(lines[2]["i"], "2");
  EXPECT_NE(lines[1]["prev"], lines[2]["prev"]);
  EXPECT_EQ(Verify(), "3 lines, torn 0");
}

TEST_F(AuditLogTest, GoesOnAfterARestart) {
  WriteLines(2);
  WriteLines(2);
  EXPECT_EQ(Verify(), "4 lines, torn 0");
  EXPECT_EQ(Lines().back()["n"], 4);
}

TEST_F(AuditLogTest, ATornLastLineIsToldAndMovedAway) {
  WriteLines(2);
  const std::string good = Text();
  std::filesystem::resize_file(path_, good.size() - 10);
  EXPECT_THAT(Verify(), HasSubstr("1 lines, torn "));
  WriteLines(1);
  EXPECT_EQ(Verify(), "3 lines, torn 0");
  EXPECT_EQ(Lines()[1]["event"], "torn_line_removed");
  const std::string torn = TextOf(path_ + ".torn");
  EXPECT_EQ(torn, good.substr(good.find('\n') + 1, torn.size()));
  EXPECT_EQ(Lines()[1]["bytes"], absl::StrCat(torn.size()));
}

TEST_F(AuditLogTest, AFirstLineMayBeTorn) {
  WriteLines(1);
  for (const size_t bytes : {1, 40}) {
    std::filesystem::resize_file(path_, bytes);
    WriteLines(1);
    EXPECT_EQ(Verify(), "2 lines, torn 0");
  }
}

TEST_F(AuditLogTest, AFileThatMayBeSomethingElseIsLeftAsItIs) {
  WriteLines(2);
  const std::string zeros(3 << 20, '\0');
  for (const std::string& text : {std::string("{\"credentials\": []}"), Text() + zeros, zeros,
                                  "{\"n\":1,\"time\":\"" + zeros}) {
    std::ofstream(path_, std::ios::trunc) << text;
    EXPECT_EQ(ErrorReason(AuditLog::Open({.path = path_}).status()), "AUDIT_BROKEN");
    EXPECT_TRUE(Text() == text);
  }
}

TEST_F(AuditLogTest, EveryChangedByteIsFoundInItsLine) {
  WriteLines(4);
  const std::string good = Text();
  const size_t last_line = good.rfind('\n', good.size() - 2) + 1;
  for (size_t i = 0; i < last_line; ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    std::ofstream(path_, std::ios::trunc) << bad;
    const auto summary = VerifyAuditLog(path_);
    const auto line = 1 + std::count(good.begin(), good.begin() + static_cast<ptrdiff_t>(i), '\n');
    ASSERT_EQ(ErrorReason(summary.status()), "AUDIT_BROKEN") << "byte " << i;
    // The line itself, when it is none any more, or the one that it does not fit.
    EXPECT_THAT(std::string(summary.status().message()),
                ::testing::AnyOf(HasSubstr(absl::StrCat("line ", line)),
                                 HasSubstr(absl::StrCat("line ", line + 1))));
  }
}

TEST_F(AuditLogTest, LinesTakenOutPutInOrExchangedAreFound) {
  WriteLines(4);
  std::istringstream text(Text());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  const auto verify = [&](const std::vector<size_t>& order) {
    std::ofstream file(path_, std::ios::trunc);
    for (const size_t i : order) file << lines[i] << "\n";
    file.close();
    return Verify();
  };
  EXPECT_EQ(verify({0, 1, 2, 3}), "4 lines, torn 0");
  EXPECT_THAT(verify({0, 2, 3}), HasSubstr("line 2 "));
  EXPECT_THAT(verify({1, 2, 3}), HasSubstr("line 1 "));
  EXPECT_THAT(verify({0, 1, 1, 2, 3}), HasSubstr("line 3 "));
  EXPECT_THAT(verify({0, 2, 1, 3}), HasSubstr("line 2 "));
}

TEST_F(AuditLogTest, SaysWhyItCannotBeOpened) {
  const auto reason = [](const std::string& path) {
    return ErrorReason(AuditLog::Open({.path = path}).status());
  };
  EXPECT_EQ(reason("/no/folder/audit"), "AUDIT_UNWRITABLE");
  {
    const auto log = Open();
    EXPECT_EQ(reason(path_), "AUDIT_IN_USE");
  }
  std::ofstream(path_) << "something else\n";
  EXPECT_EQ(reason(path_), "AUDIT_BROKEN");
}

TEST_F(AuditLogTest, WhatCannotBeReadIsNotVerified) {
  // Reading this process's memory fails where there is none, as at 0.
  for (const std::string& path : {std::string("/no/audit"), folder_.path(),
                                  std::string("/dev/null"), std::string("/proc/self/mem")}) {
    EXPECT_EQ(ErrorReason(VerifyAuditLog(path).status()), "AUDIT_UNREADABLE") << path;
  }
}

// Simulates a full disk: writes to /dev/full fail with ENOSPC.
TEST(AuditDiskTest, AFullDiskHoldsNobodyUpAndIsTold) {
  std::mutex mutex;
  std::vector<std::string> trouble;
  AuditOptions options{.path = "/dev/full"};
  options.retry_interval = std::chrono::milliseconds(1);
  options.on_trouble = [&](const absl::Status& status) {
    const std::lock_guard lock(mutex);
    trouble.push_back(ErrorReason(status));
  };
  {
    const auto log = AuditLog::Open(options);
    ASSERT_TRUE(log.ok()) << log.status();
    for (size_t i = 0; i < 2 * AuditLog::kWaitingMax; ++i) (*log)->Append("event", {});
    (*log)->Flush();
  }
  EXPECT_THAT(trouble, ElementsAre("AUDIT_UNWRITABLE")) << "once, not for every attempt";
}

// While the object exists, no file of this process grows beyond `bytes`: a write is cut short.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(AuditLogTest, LinesThatFoundNoPlaceAreCountedByTheLastOne) {
  {
    const auto log = Open();
    log->Append("first", {});
    log->Flush();
    {
      const FileSizeLimit limit(Text().size());
      for (size_t i = 0; i < AuditLog::kWaitingMax + 7; ++i) log->Append("event", {});
    }
  }
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1 + AuditLog::kWaitingMax + 1);
  EXPECT_EQ(lines.back()["event"], "lines_lost");
  EXPECT_EQ(lines.back()["lines"], "7");
  EXPECT_TRUE(VerifyAuditLog(path_).ok());
}

TEST_F(AuditLogTest, LinesOfAnAttemptThatFailsDuringTheStopAreTriedOnceMore) {
  std::promise<void> failing, stopping;
  std::atomic<bool> stops = false;
  AuditOptions options{.path = path_};
  // The destructor asks for the time of the line that counts the lost ones, and holds the lock.
  options.now = [&] {
    if (stops.exchange(false)) stopping.set_value();
    return std::chrono::system_clock::time_point(seconds(1'800'000'000));
  };
  options.on_trouble = [&](const absl::Status& status) {
    if (status.ok()) return;
    failing.set_value();
    stopping.get_future().wait();
  };
  {
    const auto log = AuditLog::Open(options);
    ASSERT_TRUE(log.ok()) << log.status();
    {
      const FileSizeLimit limit(0);
      (*log)->Append("event", {});
      failing.get_future().wait();
    }
    for (size_t i = 0; i < AuditLog::kWaitingMax; ++i) (*log)->Append("event", {});
    stops = true;
  }
  EXPECT_EQ(Verify(), absl::StrCat(AuditLog::kWaitingMax + 1, " lines, torn 0"));
}

TEST_F(AuditLogTest, APartOfALineThatCannotBeCutOffIsCutOffLater) {
  const auto log = Open();
  log->Append("event", {});
  log->Flush();
  const size_t bytes = Text().size();
  {
    const FileSizeLimit limit(bytes + 10);
    cutting_fails = true;
    log->Append("event", {});
    log->Flush();
    EXPECT_EQ(Text().size(), bytes + 10);
  }
  cutting_fails = false;
  log->Append("event", {});
  log->Flush();
  EXPECT_EQ(Verify(), "3 lines, torn 0");
}

TEST_F(AuditLogTest, AFileThatSomebodyElseCutIsNotFilledWithZeros) {
  const auto log = Open();
  for (int i = 0; i < 3; ++i) log->Append("event", {});
  log->Flush();
  std::filesystem::resize_file(path_, 0);
  {
    const FileSizeLimit limit(10);
    log->Append("event", {});
    log->Flush();
  }
  log->Flush();
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_EQ(Lines()[0]["n"], 4);
}

TEST_F(AuditLogTest, SaysForWhomAThreadActed) {
  const auto log = Open();
  AuditTrail trail(*log);
  {
    const auto acting = trail.ActingFor("fl-server");
    trail.RoundChanged("round_created", "acme", "rounds/a", {});
    std::thread([&] { trail.RoundChanged("round_published", "acme", "rounds/a", {}); }).join();
  }
  trail.RoundChanged("round_deleted", "acme", "rounds/a", {{"contributors", "3"}});
  log->Flush();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["by"], "fl-server");
  EXPECT_EQ(lines[1]["by"], "server");
  EXPECT_EQ(lines[2]["by"], "server");
  EXPECT_EQ(lines[2]["contributors"], "3");
}

class RefusedCallsTest : public AuditLogTest {
 protected:
  using Refused = AuditTrail::Refused;
  void Refuse(Refused who, int times) {
    for (int i = 0; i < times; ++i) trail_->CallRefused(who, "Get", "ipv4:1", "R", "m");
  }
  // Returns how often each event is in the log.
  std::map<std::string, int> Events() {
    log_->Flush();
    std::map<std::string, int> events;
    for (const auto& line : Lines()) ++events[line["event"]];
    return events;
  }

  const std::unique_ptr<AuditLog> log_ = Open();
  AuditTrail::Clock::time_point now_{seconds(1000)};
  std::unique_ptr<AuditTrail> trail_ = std::make_unique<AuditTrail>(*log_, [this] { return now_; });
};

TEST_F(RefusedCallsTest, AFloodTakesFewLinesAndIsCountedWhenItsPeriodEnds) {
  Refuse(Refused::kUnauthenticated, 1000);
  trail_->EndPeriods();
  EXPECT_THAT(Events(), ElementsAre(Pair("call_refused", AuditTrail::kRefusalsMax)));
  now_ += AuditTrail::kRefusalsPeriod;
  trail_->EndPeriods();
  EXPECT_EQ(Events()["more_calls_refused"], 1);
  EXPECT_EQ(Lines().back()["callers"], "strangers");
  EXPECT_EQ(Lines().back()["calls"], absl::StrCat(1000 - AuditTrail::kRefusalsMax));
  Refuse(Refused::kUnauthenticated, 1);
  EXPECT_EQ(Events()["call_refused"], AuditTrail::kRefusalsMax + 1);
}

TEST_F(RefusedCallsTest, StrangersHideNoKnownCaller) {
  Refuse(Refused::kUnauthenticated, 1000);
  Refuse(Refused::kAuthenticated, 1);
  EXPECT_EQ(Events()["call_refused"], AuditTrail::kRefusalsMax + 1);
}

TEST_F(RefusedCallsTest, TheRestIsCountedAtTheEnd) {
  Refuse(Refused::kAuthenticated, AuditTrail::kRefusalsMax + 3);
  trail_.reset();
  EXPECT_EQ(Events()["more_calls_refused"], 1);
  EXPECT_EQ(Lines().back()["callers"], "known");
  EXPECT_EQ(Lines().back()["calls"], "3");
}

}  // namespace
}  // namespace sparseagg
