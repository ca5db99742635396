#include "cuda/device/calibration.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cuda/kernels/calibrate.h"
#include "cuda/kernels/sort/device_sort.h"
#include "cuda/raii/pinned_buffer.h"

namespace sparseagg::gpu {
namespace {

// A card of each generation. Copies: what STREAM-like kernels reach, 80 to 90 % of the data sheet.
struct Generation {
  int major;
  int minor;
  double multiprocessors;
  double ghz;
  double copy_bytes;
  double bus_bytes;
};
constexpr Generation kGenerations[] = {
    {8, 0, 108, 1.41, 1.7e12, 25e9},  // A100, 80 GB
    {8, 6, 84, 1.74, 0.6e12, 25e9},   // A40
    {8, 9, 142, 2.5, 0.75e12, 25e9},  // L40S
    {9, 0, 132, 1.98, 4.3e12, 55e9},  // H200: the defaults of DeviceRates
    {10, 0, 148, 1.9, 6.8e12, 55e9},  // B200
};
constexpr const Generation& kH200 = kGenerations[3];

const Generation& GenerationOf(const GpuInfo& gpu) {
  const Generation* found = &kGenerations[0];
  for (const Generation& generation : kGenerations) {
    if (std::pair(generation.major, generation.minor) <=
        std::pair(gpu.compute_major, gpu.compute_minor)) {
      found = &generation;
    }
  }
  return *found;
}

// Sizes for each multiprocessor, so that a device of any size takes about as long: on one H200 536
// MB are copied, 17 million words are sorted and 33 million added.
constexpr uint64_t kCopyBytes = uint64_t{4} << 20;
constexpr uint64_t kBusBytes = uint64_t{512} << 10;
constexpr uint64_t kWords = uint64_t{1} << 17;
constexpr uint64_t kAdds = uint64_t{1} << 18;
constexpr uint64_t kFewWords = uint64_t{1} << 12;  // of all: a sort that its launches take
constexpr int kLaunches = 64;
constexpr int kSortBits = 24;
constexpr double kPasses = kSortBits / 8.0;
constexpr int kRuns = 3;
constexpr double kPlausible = 100;

// What was done, in the unit of a rate, by one run.
using Load = std::function<double()>;
using Prepare = std::function<void()>;

class Calibration {
 public:
  Calibration(Queue& queue, const GpuInfo& gpu, const Clock& clock)
      : queue_(queue),
        size_(std::max<uint64_t>(1, gpu.multiprocessors)),
        clock_(clock),
        usual_(UsualRates(gpu)),
        rates_(usual_) {}

  absl::StatusOr<DeviceRates> Measure() {
    SPARSEAGG_RETURN_IF_ERROR(Copies());
    SPARSEAGG_RETURN_IF_ERROR(Sorts());
    SPARSEAGG_RETURN_IF_ERROR(Adds());
    SPARSEAGG_RETURN_IF_ERROR(Time("a launch", &DeviceRates::launch_seconds, [&] {
      for (int i = 0; i < kLaunches; ++i) LaunchOnly(queue_);
      return static_cast<double>(kLaunches);
    }));
    return rates_;
  }

 private:
  absl::Status Copies() {
    const size_t bytes = size_ * kCopyBytes;
    DeviceArray<std::byte> from(queue_, bytes);
    DeviceArray<std::byte> to(queue_, bytes);
    queue_.Fill(from.data(), 0x5A, bytes);
    SPARSEAGG_RETURN_IF_ERROR(Rate("a copy on the device", &DeviceRates::copy_bytes, [&] {
      queue_.CopyOnDevice(to.data(), from.data(), bytes);
      return 2 * static_cast<double>(bytes);
    }));
    const PinnedBuffer host(size_ * kBusBytes);
    SPARSEAGG_RETURN_IF_ERROR(Rate("a copy to the device", &DeviceRates::bus_bytes, [&] {
      queue_.Upload(to.data(), host.data(), host.bytes());
      return static_cast<double>(host.bytes());
    }));
    return Rate("a copy to the host", &DeviceRates::bus_back_bytes, [&] {
      queue_.Download(host.data(), from.data(), host.bytes());
      return static_cast<double>(host.bytes());
    });
  }

  absl::Status Sorts() {
    const uint64_t size = size_ * kWords;
    DeviceArray<uint64_t> words(queue_, size);
    DeviceArray<uint32_t> entries(queue_, size);
    const Prepare random = [&] { FillAtRandom(queue_, words.data(), size); };
    SPARSEAGG_RETURN_IF_ERROR(Rate(
        "a sort of words", &DeviceRates::sort_words,
        [&] {
          SortWords(queue_, words, static_cast<uint32_t>(size), 0, kSortBits);
          return kPasses * static_cast<double>(size);
        },
        random));
    SPARSEAGG_RETURN_IF_ERROR(Rate(
        "a sort of pairs", &DeviceRates::sort_pairs,
        [&] {
          SortRows(queue_, words, entries, static_cast<uint32_t>(size), kSortBits);
          return kPasses * static_cast<double>(size);
        },
        random));
    DeviceArray<uint64_t> few(queue_, kFewWords);  // a sort may swap its array for another
    return Time("a short sort's pass", &DeviceRates::pass_seconds, [&] {
      FillAtRandom(queue_, few.data(), kFewWords);
      SortWords(queue_, few, static_cast<uint32_t>(kFewWords), 0, kSortBits);
      return kPasses;
    });
  }

  absl::Status Adds() {
    const uint64_t adds = size_ * kAdds;
    // A quarter of the cache at most, and eight times the cache at least.
    const uint64_t cached =
        std::bit_floor(static_cast<uint64_t>(usual_.cache_bytes / 4 / sizeof(uint64_t)));
    DeviceArray<uint64_t> table(queue_, 64 * cached);
    queue_.Fill(table.data(), 0, table.size());
    const auto add_to = [&](uint64_t size) {
      AddAtRandom(queue_, table.data(), size, adds);
      return static_cast<double>(adds);
    };
    SPARSEAGG_RETURN_IF_ERROR(
        Rate("an add in the cache", &DeviceRates::cached_adds, [&] { return add_to(cached); }));
    SPARSEAGG_RETURN_IF_ERROR(Rate("an add beyond the cache", &DeviceRates::memory_adds,
                                   [&] { return add_to(table.size()); }));
    return Rate("an add in shared memory", &DeviceRates::shared_adds,
                [&] { return static_cast<double>(AddInShared(queue_, 4 * adds)); });
  }

  absl::Status Rate(
      const char* what, double DeviceRates::*rate, const Load& load,
      const Prepare& prepare = [] {}) {
    return Keep(what, rate, 1 / SecondsOfOne(load, prepare));
  }
  absl::Status Time(
      const char* what, double DeviceRates::*time, const Load& load,
      const Prepare& prepare = [] {}) {
    return Keep(what, time, SecondsOfOne(load, prepare));
  }

  double SecondsOfOne(const Load& load, const Prepare& prepare) {
    prepare();
    load();  // what a first call loads and allocates is not measured
    double least = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
      prepare();
      queue_.Synchronize();
      const auto start = clock_();
      const double done = load();
      queue_.Synchronize();
      least = std::min(least, std::chrono::duration<double>(clock_() - start).count() / done);
    }
    return least;
  }

  absl::Status Keep(const char* what, double DeviceRates::*rate, double measured) {
    const double usual = usual_.*rate;
    // In this form not-a-number is refused, too.
    if (!(measured > usual / kPlausible && measured < usual * kPlausible)) {
      return absl::FailedPreconditionError(
          absl::StrCat("measured ", measured, " for ", what, ", usual is ", usual));
    }
    rates_.*rate = measured;
    return absl::OkStatus();
  }

  Queue& queue_;
  const uint64_t size_;
  const Clock& clock_;
  const DeviceRates usual_;
  DeviceRates rates_;
};

}  // namespace

DeviceRates UsualRates(const GpuInfo& gpu) {
  const Generation& generation = GenerationOf(gpu);
  const double share =
      gpu.multiprocessors > 0 ? gpu.multiprocessors / generation.multiprocessors : 1;
  DeviceRates rates;
  const double copy = share * generation.copy_bytes / rates.copy_bytes;
  const double compute =
      share * generation.multiprocessors * generation.ghz / (kH200.multiprocessors * kH200.ghz);
  rates.copy_bytes *= copy;
  rates.memory_adds *= copy;
  rates.bus_bytes = rates.bus_back_bytes = generation.bus_bytes;
  rates.sort_words *= compute;
  rates.sort_pairs *= compute;
  rates.cached_adds *= compute;
  rates.shared_adds *= compute;
  if (gpu.cache_bytes > 0) rates.cache_bytes = 0.8 * static_cast<double>(gpu.cache_bytes);
  return rates;
}

absl::StatusOr<DeviceRates> MeasureRates(Queue& queue, const GpuInfo& gpu, const Clock& clock) {
  return Calibration(queue, gpu, clock).Measure();
}

std::string Describe(const DeviceRates& rates) {
  return absl::StrCat("bytes a second: copy ", rates.copy_bytes, ", to the device ",
                      rates.bus_bytes, ", to the host ", rates.bus_back_bytes,
                      "; a second: sorted words and passes ", rates.sort_words, ", pairs ",
                      rates.sort_pairs, ", adds in the cache ", rates.cached_adds, ", beyond it ",
                      rates.memory_adds, ", in shared memory ", rates.shared_adds,
                      "; seconds: pass ", rates.pass_seconds, ", launch ", rates.launch_seconds);
}

}  // namespace sparseagg::gpu
