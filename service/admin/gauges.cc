#include "service/admin/gauges.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "service/engine/round_state.h"

namespace sparseagg {

prometheus::MetricFamily Family(const std::string& name, const std::string& help,
                                prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

namespace {

prometheus::MetricFamily RoundsByState(const EngineStats& stats) {
  prometheus::MetricFamily family =
      Family("sparseagg_rounds", "Rounds that exist, by state", prometheus::MetricType::Gauge);
  for (const RoundState state :
       {RoundState::kOpen, RoundState::kSealed, RoundState::kPublished, RoundState::kAborted}) {
    prometheus::ClientMetric metric;
    metric.label = {{"state", std::string(RoundStateName(state))}};
    const auto found = stats.rounds.find(state);
    metric.gauge.value = found == stats.rounds.end() ? 0.0 : static_cast<double>(found->second);
    family.metric.push_back(std::move(metric));
  }
  return family;
}

uint64_t CountOpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  uint64_t count = 0;
  while (!error && files != std::filesystem::directory_iterator()) {
    ++count;
    files.increment(error);
  }
  return count > 0 ? count - 1 : 0;  // without the descriptor of this listing
}

uint64_t ResidentBytes() {
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

prometheus::MetricFamily Gauge(const std::string& name, const std::string& help, double value) {
  prometheus::MetricFamily family = Family(name, help, prometheus::MetricType::Gauge);
  family.metric.emplace_back().gauge.value = value;
  return family;
}

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    stats.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  }
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) stats.open_files_max = files.rlim_cur;
  stats.resident_bytes = ResidentBytes();
  stats.open_files = CountOpenFiles();
  return stats;
}

std::optional<uint64_t> FreeBytes(const std::string& directory) {
  struct statvfs disk = {};
  if (directory.empty() || statvfs(directory.c_str(), &disk) != 0) return std::nullopt;
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

std::vector<prometheus::MetricFamily> EngineGauges(const EngineStats& stats, const Limits& limits) {
  const auto number = [](uint64_t value) { return static_cast<double>(value); };
  return {
      RoundsByState(stats),
      Gauge("sparseagg_rounds_max", "Limit rounds-max", number(limits.rounds_max)),
      Gauge("sparseagg_staged_bytes", "Updates received and not yet folded in",
            number(stats.staged_bytes)),
      Gauge("sparseagg_staged_bytes_max", "Limit staging-bytes-max",
            number(limits.staging_bytes_max)),
      Gauge("sparseagg_aggregation_bytes",
            "Memory of the back end that rounds hold: accumulators, waiting entries and results",
            number(stats.aggregation_bytes)),
      Gauge("sparseagg_aggregation_bytes_max", "Limit aggregation-bytes-max",
            number(stats.aggregation_bytes_max)),
      Gauge("sparseagg_open_uploads", "Unfinished chunked updates", number(stats.open_uploads)),
      Gauge("sparseagg_open_uploads_max", "Limit open-uploads-max",
            number(limits.open_uploads_max)),
      Gauge("sparseagg_upload_disk_bytes", "Bytes of unfinished chunked updates on disk",
            number(stats.upload_disk_bytes)),
      Gauge("sparseagg_upload_disk_bytes_max", "Limit upload-disk-bytes-max",
            number(limits.upload_disk_bytes_max)),
      Gauge("sparseagg_waiting_tasks", "Folds and publications that no thread has begun",
            number(stats.waiting_tasks)),
  };
}

std::vector<prometheus::MetricFamily> TaskGauges(const TaskStats& stats, const TaskLimits& limits) {
  const auto number = [](uint64_t value) { return static_cast<double>(value); };
  const auto counter = [&](const std::string& name, const std::string& help, uint64_t value) {
    prometheus::MetricFamily family = Family(name, help, prometheus::MetricType::Counter);
    family.metric.emplace_back().counter.value = number(value);
    return family;
  };
  const auto labelled = [&](prometheus::MetricFamily family, const std::string& label,
                            const std::vector<std::pair<std::string, uint64_t>>& values) {
    for (const auto& [word, value] : values) {
      prometheus::ClientMetric metric;
      metric.label = {{label, word}};
      family.type == prometheus::MetricType::Gauge ? metric.gauge.value = number(value)
                                                   : metric.counter.value = number(value);
      family.metric.push_back(std::move(metric));
    }
    return family;
  };
  return {
      labelled(
          Family("sparseagg_tasks", "Tasks that exist", prometheus::MetricType::Gauge), "state",
          {{"AVAILABLE", stats.available}, {"LEASED", stats.leased}, {"final", stats.finished}}),
      Gauge("sparseagg_tasks_max", "Limit tasks-max", number(limits.tasks_max)),
      Gauge("sparseagg_task_bytes", "Payloads, names and texts of tasks, and 2 KiB for each group",
            number(stats.payload_bytes)),
      Gauge("sparseagg_task_bytes_max", "Limit task-bytes-max", number(limits.task_bytes_max)),
      counter("sparseagg_task_leases_total", "Leases given to workers", stats.acquired),
      counter("sparseagg_task_polls_total", "AcquireTasks calls that found no task", stats.polls),
      counter("sparseagg_task_renewals_total", "Leases that were renewed", stats.renewed),
      counter("sparseagg_task_fenced_total",
              "Calls refused for the token of a lease that has ended", stats.fenced),
      labelled(Family("sparseagg_task_leases_lost_total", "Leases that ended without an update",
                      prometheus::MetricType::Counter),
               "cause",
               {{"time", stats.leases_ended},
                {"failed", stats.worker_failures},
                {"handed_back", stats.handed_back}}),
      labelled(Family("sparseagg_tasks_ended_total", "Tasks that entered a final state",
                      prometheus::MetricType::Counter),
               "state",
               {{"COMPLETED", stats.completed},
                {"FAILED", stats.failed},
                {"CANCELLED", stats.cancelled}}),
      counter("sparseagg_tasks_completed_by_update_total",
              "Completed tasks whose worker did not complete them", stats.completed_by_update),
  };
}

std::vector<prometheus::MetricFamily> LeafGauges(const std::vector<LeafStatus>& leaves) {
  using Type = prometheus::MetricType;
  prometheus::MetricFamily up = Family("sparseagg_leaf_up", "1 if the leaf answers", Type::Gauge);
  prometheus::MetricFamily silent =
      Family("sparseagg_leaf_silent_seconds", "Time since the leaf's last answer", Type::Gauge);
  prometheus::MetricFamily bytes =
      Family("sparseagg_leaf_partial_bytes_total",
             "Bytes of partial aggregates that were received from the leaf", Type::Counter);
  prometheus::MetricFamily given_up = Family(
      "sparseagg_leaf_given_up_total", "Rounds in which the leaf was given up", Type::Counter);
  for (const LeafStatus& leaf : leaves) {
    prometheus::ClientMetric metric;
    metric.label = {{"leaf", leaf.leaf.id}};
    metric.gauge.value = leaf.up ? 1 : 0;
    up.metric.push_back(metric);
    metric.gauge.value = std::chrono::duration<double>(leaf.silent_for).count();
    silent.metric.push_back(metric);
    metric.counter.value = static_cast<double>(leaf.partial_bytes);
    bytes.metric.push_back(metric);
    metric.counter.value = static_cast<double>(leaf.given_up);
    given_up.metric.push_back(metric);
  }
  return {up, silent, bytes, given_up};
}

std::vector<prometheus::MetricFamily> ProcessGauges(const ProcessStats& stats,
                                                    double start_time_seconds) {
  prometheus::MetricFamily cpu = Family("process_cpu_seconds_total", "CPU time of the process",
                                        prometheus::MetricType::Counter);
  cpu.metric.emplace_back().counter.value = stats.cpu_seconds;
  return {
      cpu,
      Gauge("process_resident_memory_bytes", "Memory that the process holds",
            static_cast<double>(stats.resident_bytes)),
      Gauge("process_open_fds", "Open file descriptors", static_cast<double>(stats.open_files)),
      Gauge("process_max_fds", "File descriptors that may be open",
            static_cast<double>(stats.open_files_max)),
      Gauge("process_start_time_seconds", "When the process began, since 1970", start_time_seconds),
  };
}

}  // namespace sparseagg
