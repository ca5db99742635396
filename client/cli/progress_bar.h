// A progress bar on stderr, shown if stderr is a terminal and the transfer takes long.
#ifndef SPARSEAGG_CLIENT_CLI_PROGRESS_BAR_H_
#define SPARSEAGG_CLIENT_CLI_PROGRESS_BAR_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "client/client.h"

namespace sparseagg::cli {

// The destructor erases the bar. One thread uses it.
class ProgressBar {
 public:
  // `label` names what is transferred: "emb.npz".
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // The callback for the client library, valid while the bar lives. Empty without a terminal.
  client::Progress progress();
  // Shows `done` of `total` pieces, for progress that is not counted in bytes.
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
