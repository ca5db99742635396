// Sparse against dense aggregation end to end, by density: the same model's updates sent sparse,
// sent dense through the same server, and sent dense to a plain gRPC server that adds f32 vectors
// (bench/ingest/sinks.h). Values are f32, rounds of durability MEMORY.
//
//   dense_bench [--quick] [--density D...] [--json FILE] [--server PROGRAM]
//
// Time runs from the first byte sent to the published result. Sparse updates travel as the clients
// send them: in the encoding with the fewest bytes that changes nothing. Contenders take turns;
// medians are reported. The plain adder neither checks, nor rounds once, nor keeps receipts. "dense
// again" is "dense" once more: how far it is from it is the machine's noise.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/ingest/frames.h"
#include "bench/ingest/sinks.h"
#include "bench/report_file.h"
#include "bench/round_calls.h"
#include "bench/server_process.h"
#include "sparse/encode.h"

namespace sparseagg::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kValues = 4'000'000;  // of the model
constexpr int64_t kContributors = 16;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int64_t kDistinct = 8;  // updates, in turn

// `density` of the rows, each alike; all of them at 1.
Payload SparsePayload(double density, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution held(density);
  std::vector<uint64_t> rows;
  for (int64_t row = 0; row < kValues; ++row) {
    if (density >= 1 || held(random)) rows.push_back(row);
  }
  std::vector<float> values(rows.size());
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1p-24f - 0.5f;
  Payload payload;
  payload.header = {.name = "emb", .dense_shape = {kValues, 1}, .sparse_dim = 1};
  const CooView entries{{.num_rows = kValues}, rows.size(), rows.data(), values.data()};
  const absl::Status encoded =
      EncodeTensor(entries, {}, payload.header, payload.indices, payload.values);
  if (!encoded.ok()) {
    Check(grpc::Status(grpc::StatusCode::INTERNAL, std::string(encoded.message())), "encoding");
  }
  return payload;
}

Payload DensePayload(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(kValues);
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1p-24f - 0.5f;
  Payload payload;
  payload.header = {
      .name = "emb", .dense_shape = {kValues, 1}, .nnz = 1, .values_bytes = 4 * kValues};
  payload.values.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  return payload;
}

double RunServer(const ServerProcess& server, const std::vector<Payload>& payloads) {
  const auto channel = Connect(server.target());
  const auto stub = Service::NewStub(channel);
  const std::string round = CreateRound(*stub, v1::DURABILITY_MEMORY, kValues, 1,
                                        static_cast<int>(payloads[0].header.sparse_dim));
  const auto frames = MakeFrames(payloads, kContributors, round, {.chunk_bytes = kChunkBytes});
  const auto start = Clock::now();
  SendFrames(*channel, frames);
  Publish(*stub, round, kContributors);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  DeleteRound(*stub, round);
  return seconds;
}

double RunAdder(const ServerProcess& adder, const std::vector<Payload>& payloads) {
  const auto channel = Connect(adder.target());
  const auto frames =
      MakeFrames(payloads, kContributors, "rounds/none", {.chunk_bytes = kChunkBytes});
  return SendFrames(*channel, frames);
}

struct Contender {
  std::string name;
  double density = 1;
  size_t load = 0;
  bool by_adder = false;
  std::vector<double> seconds;
  uint64_t peak_bytes = 0;  // of a server that did nothing before
};

uint64_t BytesSent(const std::vector<Payload>& payloads) {
  uint64_t bytes = 0;
  for (int64_t i = 0; i < kContributors; ++i) bytes += payloads[i % payloads.size()].bytes();
  return bytes;
}

std::unique_ptr<ServerProcess> Started(absl::StatusOr<std::unique_ptr<ServerProcess>> process) {
  if (process.ok()) return *std::move(process);
  std::fprintf(stderr, "dense_bench: %s\n", std::string(process.status().message()).c_str());
  std::exit(1);
}
std::unique_ptr<ServerProcess> StartServer(const std::string& program) {
  return Started(ServerProcess::Start(program));
}
std::unique_ptr<ServerProcess> StartAdder() {
  return Started(
      ServerProcess::StartOther(ThisProgram(), {"--serve-sink", "adder", "--sink-port-file"}));
}

std::vector<double> Densities(bool quick) {
  std::vector<double> densities;
  for (int i = -10; i < 0; ++i) {
    if (!quick || i % 2 == 0) densities.push_back(std::pow(10.0, i / 2.0));
  }
  densities.insert(densities.end(), {0.5, 0.7, 0.9, 0.95, 0.97, 0.99, 1.0});
  return densities;
}

std::vector<Row> Measure(const std::string& program, const std::vector<double>& densities,
                         bool quick) {
  std::vector<std::vector<Payload>> loads(1);  // the dense one first
  for (int64_t i = 0; i < kDistinct; ++i) loads[0].push_back(DensePayload(i));
  for (const double density : densities) {
    std::vector<Payload>& payloads = loads.emplace_back();
    for (int64_t i = 0; i < kDistinct; ++i) payloads.push_back(SparsePayload(density, i));
  }
  std::vector<Contender> contenders = {{.name = "dense", .load = 0},
                                       {.name = "plain adder", .load = 0, .by_adder = true},
                                       {.name = "dense again", .load = 0}};
  for (size_t i = 0; i < densities.size(); ++i) {
    contenders.push_back({.name = "sparse", .density = densities[i], .load = i + 1});
  }
  for (Contender& contender : contenders) {
    const auto fresh = contender.by_adder ? StartAdder() : StartServer(program);
    (contender.by_adder ? RunAdder : RunServer)(*fresh, loads[contender.load]);
    contender.peak_bytes = fresh->PeakBytes();
  }
  const auto server = StartServer(program);
  const auto adder = StartAdder();
  const int rounds = quick ? 3 : 41;
  std::vector<size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(1);
  for (int round = 0; round <= rounds; ++round) {
    // In another order each time: a run finds the pages and caches as the one before left them.
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t c : order) {
      Contender& contender = contenders[c];
      const std::vector<Payload>& payloads = loads[contender.load];
      const double seconds =
          contender.by_adder ? RunAdder(*adder, payloads) : RunServer(*server, payloads);
      if (round > 0) contender.seconds.push_back(seconds);  // the first warms up
    }
  }
  const double dense_s = Median(contenders[0].seconds);
  const double adder_s = Median(contenders[1].seconds);
  std::vector<Row> rows;
  for (const Contender& contender : contenders) {
    const double seconds = Median(contender.seconds);
    Row row;
    row["way"] = contender.name;
    row["density"] = contender.density;
    row["encoding"] = loads[contender.load][0].header.encoding;
    row["mb_sent"] = static_cast<double>(BytesSent(loads[contender.load])) / 1e6;
    row["ms"] = seconds * 1e3;
    row["peak_mb"] = static_cast<double>(contender.peak_bytes) / 1e6;
    row["time_to_dense"] = seconds / dense_s;
    row["time_to_adder"] = seconds / adder_s;
    row["runs"] = contender.seconds.size();
    rows.push_back(row);
  }
  return rows;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures sparse against dense aggregation over gRPC, by density.");
  bool quick = false;
  std::vector<double> densities;
  std::string json;
  std::string program = ServerBesideThisProgram();
  std::string sink;
  std::string sink_port_file;
  app.add_flag("--quick", quick, "every other density, three rounds");
  app.add_option("--density", densities, "these in place of all")->check(CLI::Range(0.0, 1.0));
  app.add_option("--json", json, "write the results to this file");
  app.add_option("--server", program, "the sparseagg program")->capture_default_str();
  app.add_option("--serve-sink", sink, "be the other server");
  app.add_option("--sink-port-file", sink_port_file, "where it writes its port");
  CLI11_PARSE(app, argc, argv);
  if (!sink.empty()) ServeSink(sink, sink_port_file);

  if (densities.empty()) densities = Densities(quick);
  const std::vector<Row> rows = Measure(program, densities, quick);
  for (const Row& row : rows) std::printf("%s\n", row.dump().c_str());
  return json.empty() || WriteReport(json, "dense", rows) ? 0 : 1;
}

}  // namespace
}  // namespace sparseagg::bench

int main(int argc, char** argv) { return sparseagg::bench::Main(argc, argv); }
