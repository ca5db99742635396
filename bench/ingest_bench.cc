// How near to the wire: a load through gRPC into a round, beside servers that throw the same bytes
// away (bench/ingest/sinks.h). One sender, on the same cores. The load's messages are made before;
// its time runs from the first byte to the last receipt. The server's CPU time runs on until the
// result is published: nothing is put off beyond what is counted.
//
//   ingest_bench [--quick] [--json FILE] [--server PROGRAM] [--only NAME]
//
// The contenders take turns, a few rounds; medians are reported. Ratios are to `null` and `typed`;
// of updates that travel in batches also to `null, one by one`, which is sent one in a message.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/ingest/frames.h"
#include "bench/ingest/sinks.h"
#include "bench/report_file.h"
#include "bench/round_calls.h"
#include "bench/server_process.h"

namespace sparseagg::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct LoadShape {
  std::string name;
  int64_t rows = 0;   // of the tensor
  int64_t width = 1;  // f32 values of a row
  int64_t nnz = 0;    // rows of an update, ascending
  int64_t updates = 0;
  Framing framing;

  int64_t update_bytes() const { return nnz * (8 + 4 * width); }
  int64_t bytes() const { return update_bytes() * updates; }
};

const LoadShape kLoads[] = {
    {.name = "rows of 64",
     .rows = 100'000,
     .width = 64,
     .nnz = 31'775,
     .updates = 128,
     .framing = {.chunk_bytes = size_t{1} << 20}},
    {.name = "scalars",
     .rows = 10'000'000,
     .width = 1,
     .nnz = 500'000,
     .updates = 160,
     .framing = {.chunk_bytes = size_t{1} << 20}},
    {.name = "1 KB", .rows = 100'000, .width = 64, .nnz = 4, .updates = 100'000},
    {.name = "1 KB, 64 in a message",
     .rows = 100'000,
     .width = 64,
     .nnz = 4,
     .updates = 400'000,
     .framing = {.batch_updates = 64}},
};

const std::vector<std::string> kServers = {"sparseagg", "null",   "typed",
                                           "copy",      "answer", "socket"};
// Not a server of its own: `null`, sent the load one update in a message.
const std::string kOneByOne = "null, one by one";

std::vector<std::string> ContendersFor(const LoadShape& shape) {
  std::vector<std::string> contenders = kServers;
  if (shape.framing.batch_updates > 1) contenders.push_back(kOneByOne);
  return contenders;
}

// coo.raw, i64 indices.
Payload MakePayload(const LoadShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  // An entry in each stretch of the index space: ascending, distinct, and quickly made.
  const int64_t stretch = shape.rows / shape.nnz;
  std::vector<int64_t> indices(shape.nnz);
  for (int64_t i = 0; i < shape.nnz; ++i) {
    indices[i] = i * stretch + static_cast<int64_t>(random() % static_cast<uint64_t>(stretch));
  }
  std::vector<float> values(shape.nnz * shape.width);
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1p-24f - 0.5f;
  return RawPayload(indices, values, shape.rows);
}

// A few distinct updates, more than the last cache holds.
std::vector<Payload> MakePayloads(const LoadShape& shape) {
  constexpr int64_t kDistinctBytes = int64_t{128} << 20;
  const int64_t distinct = std::clamp<int64_t>(kDistinctBytes / shape.update_bytes(), 1,
                                               std::min<int64_t>(shape.updates, 512));
  std::vector<Payload> payloads;
  for (int64_t i = 0; i < distinct; ++i) payloads.push_back(MakePayload(shape, i));
  return payloads;
}

struct Run {
  double seconds = 0;
  double server_cpu_s = 0;
};

// The same bytes over a plain connection.
double SendOverSocket(const std::string& target, const std::vector<grpc::ByteBuffer>& frames) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(std::stoi(target.substr(target.rfind(':') + 1)));
  bool ok = connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const auto start = Clock::now();
  std::vector<grpc::Slice> slices;
  for (const grpc::ByteBuffer& frame : frames) {
    slices.clear();
    ok = ok && frame.Dump(&slices).ok();
    for (const grpc::Slice& slice : slices) {
      for (size_t at = 0; ok && at < slice.size();) {
        const ssize_t sent = write(connection, slice.begin() + at, slice.size() - at);
        ok = sent > 0;
        at += ok ? static_cast<size_t>(sent) : 0;
      }
    }
  }
  shutdown(connection, SHUT_WR);
  char end = 0;
  ok = ok && read(connection, &end, 1) == 0;
  close(connection);
  if (!ok) Check(grpc::Status(grpc::StatusCode::UNAVAILABLE, target), "socket");
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Run RunOurs(const ServerProcess& server, const LoadShape& shape,
            const std::vector<Payload>& payloads) {
  const auto channel = Connect(server.target());
  const auto stub = Service::NewStub(channel);
  const std::string round = CreateRound(*stub, v1::DURABILITY_MEMORY, shape.rows, shape.width);
  const auto frames = MakeFrames(payloads, shape.updates, round, shape.framing);
  const double cpu = server.CpuSeconds();
  Run run{.seconds = SendFrames(*channel, frames)};
  Publish(*stub, round, shape.updates);
  run.server_cpu_s = server.CpuSeconds() - cpu;
  DeleteRound(*stub, round);
  return run;
}

Run RunSink(const ServerProcess& sink, bool is_socket,
            const std::vector<grpc::ByteBuffer>& frames) {
  const double cpu = sink.CpuSeconds();
  Run run;
  if (is_socket) {
    run.seconds = SendOverSocket(sink.target(), frames);
  } else {
    run.seconds = SendFrames(*Connect(sink.target()), frames);
  }
  run.server_cpu_s = sink.CpuSeconds() - cpu;
  return run;
}

using Runs = std::map<std::string, std::vector<Run>>;

double MedianOf(const std::vector<Run>& runs, double Run::*what) {
  std::vector<double> values;
  for (const Run& run : runs) values.push_back(run.*what);
  return Median(values);
}

std::vector<Row> RowsOf(const LoadShape& shape, const Runs& runs) {
  const double gb = static_cast<double>(shape.bytes()) / 1e9;
  std::vector<Row> rows;
  for (const std::string& name : ContendersFor(shape)) {
    const double seconds = MedianOf(runs.at(name), &Run::seconds);
    const double cpu = MedianOf(runs.at(name), &Run::server_cpu_s);
    Row row;
    row["load"] = shape.name;
    row["server"] = name;
    row["update_bytes"] = shape.update_bytes();
    row["gb_s"] = gb / seconds;
    row["updates_per_s"] = static_cast<double>(shape.updates) / seconds;
    row["cpu_s_per_gb"] = cpu / gb;
    for (const std::string sink : {"null", "typed"}) {
      row["rate_to_" + sink] = MedianOf(runs.at(sink), &Run::seconds) / seconds;
      row["cpu_to_" + sink] = cpu / MedianOf(runs.at(sink), &Run::server_cpu_s);
    }
    if (runs.contains(kOneByOne)) {
      row["rate_to_null_one_by_one"] = MedianOf(runs.at(kOneByOne), &Run::seconds) / seconds;
    }
    row["runs"] = runs.at(name).size();
    rows.push_back(row);
  }
  return rows;
}

using Processes = std::map<std::string, std::unique_ptr<ServerProcess>>;

Processes StartAll(const std::string& program) {
  Processes processes;
  for (const std::string& name : kServers) {
    auto process =
        name == "sparseagg"
            ? ServerProcess::Start(program)
            : ServerProcess::StartOther(ThisProgram(), {"--serve-sink", name, "--sink-port-file"});
    if (!process.ok()) {
      Check(grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(process.status().message())),
            name);
    }
    processes[name] = *std::move(process);
  }
  return processes;
}

std::vector<Row> Measure(const Processes& processes, LoadShape shape, int rounds, bool quick) {
  if (quick) shape.updates /= 4;
  const auto payloads = MakePayloads(shape);
  const auto frames = MakeFrames(payloads, shape.updates, "rounds/none", shape.framing);
  std::vector<std::string> contenders = ContendersFor(shape);
  std::vector<grpc::ByteBuffer> one_by_one;
  if (contenders.back() == kOneByOne) {
    one_by_one = MakeFrames(payloads, shape.updates, "rounds/none", {});
  }
  const auto run_once = [&](const std::string& name) {
    if (name == "sparseagg") return RunOurs(*processes.at(name), shape, payloads);
    if (name == kOneByOne) return RunSink(*processes.at("null"), false, one_by_one);
    return RunSink(*processes.at(name), name == "socket", frames);
  };
  Runs runs;
  std::mt19937_64 random(1);
  for (int round = 0; round <= rounds; ++round) {
    // In another order each time: a run finds the pages and caches as the one before left them.
    std::shuffle(contenders.begin(), contenders.end(), random);
    for (const std::string& name : contenders) {
      const Run run = run_once(name);
      if (round > 0) runs[name].push_back(run);  // the first warms up
    }
  }
  return RowsOf(shape, runs);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures ingestion over gRPC beside servers that throw the bytes away.");
  bool quick = false;
  int rounds = 15;
  std::string json;
  std::string only;
  std::string program = ServerBesideThisProgram();
  std::string sink;
  std::string sink_port_file;
  app.add_flag("--quick", quick, "a quarter of the updates, three rounds");
  app.add_option("--json", json, "write the results to this file");
  app.add_option("--only", only, "the load of this name");
  app.add_option("--server", program, "the sparseagg program")->capture_default_str();
  app.add_option("--serve-sink", sink, "be one of the other servers");
  app.add_option("--sink-port-file", sink_port_file, "where it writes its port");
  CLI11_PARSE(app, argc, argv);
  if (!sink.empty()) ServeSink(sink, sink_port_file);
  if (quick) rounds = 3;

  const Processes processes = StartAll(program);
  std::vector<Row> rows;
  for (const LoadShape& shape : kLoads) {
    if (!only.empty() && only != shape.name) continue;
    for (const Row& row : Measure(processes, shape, rounds, quick)) {
      std::printf("%s\n", row.dump().c_str());
      std::fflush(stdout);
      rows.push_back(row);
    }
  }
  return json.empty() || WriteReport(json, "ingest", rows) ? 0 : 1;
}

}  // namespace
}  // namespace sparseagg::bench

int main(int argc, char** argv) { return sparseagg::bench::Main(argc, argv); }
