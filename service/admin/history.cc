#include "service/admin/history.h"

#include <numeric>

namespace sparseagg {

double Quantile(const std::vector<uint64_t>& buckets, const std::vector<double>& bounds,
                double quantile) {
  const uint64_t count = std::accumulate(buckets.begin(), buckets.end(), uint64_t{0});
  if (count == 0) return 0;
  const double wanted = quantile * static_cast<double>(count);
  double before = 0;
  for (size_t i = 0; i < buckets.size() && i < bounds.size(); ++i) {
    const auto here = static_cast<double>(buckets[i]);
    if (here > 0 && before + here >= wanted) {
      const double low = i == 0 ? 0 : bounds[i - 1];
      return low + (bounds[i] - low) * (wanted - before) / here;
    }
    before += here;
  }
  return bounds.back();  // above all bounds: a lower limit
}

void History::Add(std::chrono::system_clock::time_point time, const Totals& totals,
                  const EngineStats& stats) {
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> since = time - last_time_;
  if (added_++ > 0 && since.count() > 0) {
    const auto rate = [&](uint64_t Totals::*field) {
      return static_cast<double>(totals.*field - last_.*field) / since.count();
    };
    std::vector<uint64_t> buckets = totals.submit_buckets;
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] -= last_.submit_buckets[i];
    samples_.push_back({.number = added_ - 1,
                        .time = time,
                        .updates_per_s = rate(&Totals::accepted),
                        .refused_per_s = rate(&Totals::refused),
                        .bytes_per_s = rate(&Totals::payload_bytes),
                        .nnz_per_s = rate(&Totals::nnz),
                        .submit_p50_s = Quantile(buckets, SecondsBuckets(), 0.50),
                        .submit_p99_s = Quantile(buckets, SecondsBuckets(), 0.99),
                        .staged_bytes = stats.staged_bytes,
                        .aggregation_bytes = stats.aggregation_bytes});
    if (samples_.size() > kSamplesMax) samples_.pop_front();
  }
  last_ = totals;
  last_time_ = time;
}

std::vector<HistorySample> History::After(uint64_t after) const {
  const std::lock_guard lock(mutex_);
  std::vector<HistorySample> samples;
  for (const HistorySample& sample : samples_) {
    if (sample.number > after) samples.push_back(sample);
  }
  return samples;
}

}  // namespace sparseagg
