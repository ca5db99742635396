// The samples behind the charts of the status page: one for each interval of two seconds, ten
// minutes in all. The caller takes the samples; this class computes the differences and stores
// them.
#ifndef SPARSEAGG_SERVICE_ADMIN_HISTORY_H_
#define SPARSEAGG_SERVICE_ADMIN_HISTORY_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "service/admin/metrics.h"
#include "service/engine/types.h"

namespace sparseagg {

struct HistorySample {
  uint64_t number = 0;  // from 1
  std::chrono::system_clock::time_point time;
  double updates_per_s = 0;  // accepted
  double refused_per_s = 0;
  double bytes_per_s = 0;
  double nnz_per_s = 0;
  double submit_p50_s = 0;  // 0: no update was accepted
  double submit_p99_s = 0;
  uint64_t staged_bytes = 0;
  uint64_t aggregation_bytes = 0;
};

// The duration that the share `quantile` of the observations does not exceed, by linear
// interpolation within a bucket. 0 if there are no observations.
double Quantile(const std::vector<uint64_t>& buckets, const std::vector<double>& bounds,
                double quantile);

// Thread-safe.
class History {
 public:
  static constexpr std::chrono::seconds kInterval{2};
  static constexpr size_t kSamplesMax = 300;

  void Add(std::chrono::system_clock::time_point time, const Totals& totals,
           const EngineStats& stats);
  // The samples with a number above `after`, the oldest first.
  std::vector<HistorySample> After(uint64_t after) const;

 private:
  mutable std::mutex mutex_;
  std::deque<HistorySample> samples_;
  Totals last_;
  std::chrono::system_clock::time_point last_time_;
  uint64_t added_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_HISTORY_H_
