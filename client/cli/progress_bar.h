// A bar on stderr while bytes travel, when stderr is a terminal and the transfer is long.
#ifndef SPARSEAGG_CLIENT_CLI_PROGRESS_BAR_H_
#define SPARSEAGG_CLIENT_CLI_PROGRESS_BAR_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "client/client.h"

namespace sparseagg::cli {

// Wiped out when destroyed. One thread.
class ProgressBar {
 public:
  // `label` says what travels: "emb.npz".
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // For the client library; valid while the bar lives. Empty when there is no terminal.
  client::Progress progress();
  // `done` of `total` pieces, for what is not counted in bytes.
  void Step(uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  void Show(uint64_t done, uint64_t total, const std::string& amount);

  std::string label_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

// "reduce  [#####     ]   50 %  2 of 4", the amount as given.
std::string FormatProgress(const std::string& label, uint64_t done, uint64_t total,
                           const std::string& amount);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_PROGRESS_BAR_H_
