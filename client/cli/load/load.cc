#include "client/cli/load/load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg::cli {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Names the update's file in an error about the update's content; lost connections, a full server
// and similar errors do not depend on it.
absl::Status NameFile(const absl::Status& error, const std::string& file) {
  const bool about_update = absl::IsInvalidArgument(error) || absl::IsOutOfRange(error) ||
                            (absl::IsResourceExhausted(error) && RetryAfterMs(error) == 0);
  if (file.empty() || !about_update) return error;
  return WithMessage(error, absl::StrCat(file, ": ", std::string(error.message())));
}

// The threads of one load; each takes the next update that no thread has taken.
class Load {
 public:
  Load(const LoadUpdates& updates, const LoadOptions& options, std::string round)
      : updates_(updates), options_(options), round_(std::move(round)) {}

  // Sends the updates [begin, end).
  absl::Status Run(std::vector<std::unique_ptr<client::Client>>& clients, uint64_t begin,
                   uint64_t end, LoadResult& result) {
    next_ = begin;
    const Clock::time_point start = Clock::now();
    std::vector<LoadResult> parts(clients.size());
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < clients.size(); ++t) {
        threads.emplace_back([&, t] { Work(*clients[t], start, begin, end, parts[t]); });
      }
    }
    result.seconds = Seconds(Clock::now() - start);
    for (LoadResult& part : parts) {
      result.updates += part.latencies_ms.size();
      result.payload_bytes += part.payload_bytes;
      result.entries += part.entries;
      result.latencies_ms.insert(result.latencies_ms.end(), part.latencies_ms.begin(),
                                 part.latencies_ms.end());
    }
    std::sort(result.latencies_ms.begin(), result.latencies_ms.end());
    return status_;
  }

 private:
  void Work(client::Client& client, Clock::time_point start, uint64_t begin, uint64_t end,
            LoadResult& part) {
    for (uint64_t i = next_++; i < end; i = next_++) {
      Clock::time_point due = Clock::now();
      if (options_.updates_per_s > 0) {
        due = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                          static_cast<double>(i - begin) / options_.updates_per_s));
        std::unique_lock lock(mutex_);
        if (failed_.wait_until(lock, due, [&] { return !status_.ok(); })) return;
      }
      client::Update update;
      update.contributor = absl::StrCat("bench-", i);
      update.update_id = update.contributor;
      update.tensors = updates_.update(i);
      update.encoding = options_.encoding;
      update.values = options_.values;
      const absl::StatusOr<client::Receipt> receipt = client.Submit(round_, update);
      if (!receipt.ok()) {
        Fail(NameFile(receipt.status(), updates_.file(i)));
        return;
      }
      part.latencies_ms.push_back(1000 * Seconds(Clock::now() - due));
      for (const client::TensorView& tensor : update.tensors) part.entries += tensor.entries.nnz;
      for (const client::TensorEncoding& sent : receipt->encodings)
        part.payload_bytes += sent.bytes;
      const std::lock_guard lock(mutex_);
      if (!status_.ok()) return;
      if (options_.progress) options_.progress(++done_);
    }
  }

  void Fail(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    status_.Update(status);
    failed_.notify_all();
  }

  const LoadUpdates& updates_;
  const LoadOptions& options_;
  const std::string round_;
  std::atomic<uint64_t> next_{0};
  std::mutex mutex_;
  std::condition_variable failed_;
  absl::Status status_;
  uint64_t done_ = 0;
};

// Counts retries of all threads.
class Retries {
 public:
  std::function<void(const absl::Status& why)> Counter() {
    return [this](const absl::Status& why) {
      const std::string reason = ErrorReason(why);
      const std::lock_guard lock(mutex_);
      ++by_reason_[reason.empty() ? absl::StatusCodeToString(why.code()) : reason];
    };
  }
  // REQUIRES: no client that uses a counter exists.
  std::map<std::string, uint64_t> Take() { return std::move(by_reason_); }

 private:
  std::mutex mutex_;
  std::map<std::string, uint64_t> by_reason_;
};

absl::Status Measure(const LoadUpdates& updates, const LoadOptions& options,
                     const std::string& round, Retries& retries, LoadResult& result) {
  std::vector<std::unique_ptr<client::Client>> clients;
  for (uint32_t t = 0; t < options.concurrency; ++t) {
    SPARSEAGG_ASSIGN_OR_RETURN(auto client, options.connect(retries.Counter()));
    // Connects and reads the server's encodings, so that no update pays for it. The warm-up may
    // have fewer updates than there are threads.
    SPARSEAGG_RETURN_IF_ERROR(client->Info().status());
    clients.push_back(std::move(client));
  }
  Load load(updates, options, round);
  LoadResult warm_up;
  SPARSEAGG_RETURN_IF_ERROR(load.Run(clients, 0, options.warm_up, warm_up));
  const uint64_t all = options.warm_up + options.updates;
  SPARSEAGG_RETURN_IF_ERROR(load.Run(clients, options.warm_up, all, result));
  const Clock::time_point sealed = Clock::now();
  SPARSEAGG_RETURN_IF_ERROR(clients[0]->Seal(round).status());
  SPARSEAGG_RETURN_IF_ERROR(clients[0]->Wait(round).status());
  result.seal_seconds = Seconds(Clock::now() - sealed);
  SPARSEAGG_ASSIGN_OR_RETURN(const client::Result published, clients[0]->Pull(round));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<client::Tensor> expected, updates.SumsOf(all));
  const auto same = [](const client::Tensor& a, const client::Tensor& b) {
    return a.indices == b.indices && a.values == b.values;
  };
  result.is_exact = std::equal(published.tensors.begin(), published.tensors.end(), expected.begin(),
                               expected.end(), same) &&
                    published.manifest.contributors == all;
  return absl::OkStatus();
}

}  // namespace

double LoadResult::Percentile(double share) const {
  if (latencies_ms.empty()) return 0;
  const auto rank =
      static_cast<size_t>(std::ceil(share * static_cast<double>(latencies_ms.size())));
  return latencies_ms[std::max<size_t>(rank, 1) - 1];
}

absl::StatusOr<LoadResult> RunLoad(const LoadUpdates& updates, const LoadOptions& options) {
  Retries retries;
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, options.connect(retries.Counter()));
  client::NewRound round;
  round.tensors = updates.specs();
  round.durability = options.durability;
  SPARSEAGG_ASSIGN_OR_RETURN(const client::RoundInfo info, client->CreateRound(round));
  options.round->Opened(info.name);
  LoadResult result;
  const absl::Status status = Measure(updates, options, info.name, retries, result);
  result.left = std::string(options.round->Erase().message());
  if (!status.ok() && !result.left.empty()) {
    return WithMessage(status, absl::StrCat(std::string(status.message()), "; ", result.left));
  }
  if (!status.ok()) return status;
  result.retries = retries.Take();
  return result;
}

}  // namespace sparseagg::cli
