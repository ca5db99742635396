#include "client/cli/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output.h"

namespace sparseagg::cli {
namespace {

constexpr std::chrono::milliseconds kShowAfter{500};  // shorter transfers have no bar
constexpr std::chrono::milliseconds kInterval{100};
constexpr size_t kWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

client::Progress ProgressBar::progress() {
  if (!terminal_) return {};
  return [this](uint64_t done, uint64_t total) {
    Show(done, total, absl::StrCat(FormatBytes(done), " of ", FormatBytes(total)));
  };
}

void ProgressBar::Step(uint64_t done, uint64_t total) {
  if (terminal_) Show(done, total, absl::StrCat(done, " of ", total));
}

void ProgressBar::Show(uint64_t done, uint64_t total, const std::string& amount) {
  const Clock::time_point now = Clock::now();
  if (now - start_ < kShowAfter || (shown_ && now - last_ < kInterval)) return;
  last_ = now;
  shown_ = true;
  std::fprintf(stderr, "\r%s\033[K", FormatProgress(label_, done, total, amount).c_str());
  std::fflush(stderr);
}

std::string FormatProgress(const std::string& label, uint64_t done, uint64_t total,
                           const std::string& amount) {
  const double share =
      total == 0 ? 1.0 : static_cast<double>(std::min(done, total)) / static_cast<double>(total);
  const auto filled = static_cast<size_t>(share * static_cast<double>(kWidth));
  return absl::StrFormat("%s  [%s%s]  %3.0f %%  %s", label, std::string(filled, '#'),
                         std::string(kWidth - filled, ' '), share * 100, amount);
}

}  // namespace sparseagg::cli
