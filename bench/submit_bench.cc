// How fast updates get from clients through gRPC into a round: a real server process, one loopback
// connection for each sender, messages made before. A case is (way of submission, size of an
// update); its time runs from the first byte sent to the last receipt. Sender and server share the
// machine's cores, so that the numbers are a floor.
//
//   submit_bench [--quick] [--only EXPRESSION] [--json FILE] [--server PROGRAM]
//
// Ways: `unary` is SubmitUpdate, one call after the other; `stream` is StreamUpdates with whole
// updates, receipts read beside; `batches` with 64 of them in a message; `chunks` with 1 MiB
// chunks. Each for rounds of both durabilities. `files` is what the disk can do: the payloads
// written by as many threads without a server, a file each, and fdatasync() after each.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/ingest/frames.h"
#include "bench/report_file.h"
#include "bench/round_calls.h"
#include "bench/server_process.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::bench {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr int64_t kRows = 1'000'000;
constexpr int64_t kRowWidth = 16;                   // f32: 64 bytes of values a row
constexpr int64_t kEntryBytes = 8 + 4 * kRowWidth;  // index and values
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int kRepetitions = 7;  // the median of them is reported

constexpr int64_t kBatchUpdates = 64;

enum class Way { kUnary, kStream, kBatches, kChunks, kFiles };
constexpr const char* kWayNames[] = {"unary", "stream", "batches", "chunks", "files"};

struct Case {
  Way way;
  int64_t nnz;  // entries of one update
  int updates;  // of all senders together
  int senders;  // each with a connection of its own
};

constexpr Case kCases[] = {
    {Way::kUnary, 16, 4000, 1},   {Way::kUnary, 16, 4000, 8},    {Way::kStream, 16, 4000, 1},
    {Way::kStream, 16, 4000, 8},  {Way::kBatches, 16, 4000, 1},  {Way::kBatches, 16, 4000, 8},
    {Way::kFiles, 16, 1000, 8},   {Way::kUnary, 910, 1920, 64},  {Way::kFiles, 910, 1920, 64},
    {Way::kUnary, 14'563, 96, 4}, {Way::kStream, 14'563, 96, 4}, {Way::kChunks, 14'563, 96, 4},
    {Way::kFiles, 14'563, 96, 4}, {Way::kChunks, 932'000, 8, 2}, {Way::kFiles, 932'000, 8, 2},
};

const char* NameOf(v1::Durability durability) {
  return durability == v1::DURABILITY_DURABLE ? "durable" : "memory";
}
std::string NameOf(const Case& c, v1::Durability durability) {
  return absl::StrCat(kWayNames[static_cast<int>(c.way)], "_", c.nnz * kEntryBytes, "x", c.senders,
                      "_", NameOf(durability));
}

// An update of `nnz` random distinct rows in random order, values in [0, 1).
Payload MakePayload(int64_t nnz, int64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> indices(nnz);
  for (int64_t i = 0; i < nnz; ++i) indices[i] = (i * 7919 + seed * 104'729) % kRows;
  std::shuffle(indices.begin(), indices.end(), random);
  std::vector<float> values(nnz * kRowWidth);
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1p-24f;
  return RawPayload(indices, values, kRows);
}

using Payloads = std::vector<Payload>;

// What one sender sends, ready before the clock starts.
struct Sender {
  std::shared_ptr<grpc::Channel> channel;
  std::vector<v1::SubmitUpdateRequest> calls;  // unary
  std::vector<grpc::ByteBuffer> frames;        // streams

  void Send() {
    if (!frames.empty()) {
      SendFrames(*channel, frames);
      return;
    }
    const auto stub = Service::NewStub(channel);
    for (const v1::SubmitUpdateRequest& update : calls) {
      grpc::ClientContext context;
      v1::Receipt receipt;
      Check(stub->SubmitUpdate(&context, update, &receipt), "SubmitUpdate");
    }
  }
};

// The contributors of sender s have the numbers from s * payloads.size() on.
Sender MakeSender(const std::string& target, Way way, const std::string& round,
                  const Payloads& payloads, int64_t s) {
  Sender sender{.channel = Connect(target)};
  const auto updates = static_cast<int64_t>(payloads.size());
  if (way == Way::kUnary) {
    for (int64_t i = 0; i < updates; ++i) {
      sender.calls.push_back(MakeUnary(payloads[i], round, s * updates + i));
    }
  } else {
    const Framing framing = {.chunk_bytes = way == Way::kChunks ? kChunkBytes : 0,
                             .batch_updates = way == Way::kBatches ? kBatchUpdates : 1};
    sender.frames = MakeFrames(payloads, updates, round, framing, s * updates);
  }
  return sender;
}

// What `files` measures: returns when every payload is on stable storage.
void WriteFiles(const std::string& folder, const Payloads& payloads, size_t sender) {
  for (size_t i = 0; i < payloads.size(); ++i) {
    const std::string path = absl::StrCat(folder, "/", sender, "-", i);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const std::string& indices = payloads[i].indices;
    const std::string& values = payloads[i].values;
    const bool written =
        write(fd, indices.data(), indices.size()) == static_cast<ssize_t>(indices.size()) &&
        write(fd, values.data(), values.size()) == static_cast<ssize_t>(values.size()) &&
        fdatasync(fd) == 0;
    close(fd);
    unlink(path.c_str());
    if (!written) Check(grpc::Status(grpc::StatusCode::DATA_LOSS, path), "writing a file");
  }
}

struct Measurement {
  double submit_s;
  double publish_s;
};

using Clock = std::chrono::steady_clock;

Measurement MeasureFiles(const std::string& folder, const std::vector<Payloads>& payloads) {
  const auto start = Clock::now();
  std::vector<std::thread> writers;
  for (size_t s = 0; s < payloads.size(); ++s) {
    writers.emplace_back([&, s] { WriteFiles(folder, payloads[s], s); });
  }
  for (std::thread& writer : writers) writer.join();
  return {Seconds(Clock::now() - start).count(), 0};
}

Measurement Measure(const std::string& target, v1::Durability durability, const Case& c,
                    const std::vector<Payloads>& payloads) {
  const auto stub = Service::NewStub(Connect(target));
  const std::string round = CreateRound(*stub, durability, kRows, kRowWidth);
  std::vector<Sender> senders;
  for (int s = 0; s < c.senders; ++s) {
    senders.push_back(MakeSender(target, c.way, round, payloads[s], s));
  }
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (Sender& sender : senders) threads.emplace_back([&] { sender.Send(); });
  for (std::thread& thread : threads) thread.join();
  const auto submitted = Clock::now();
  Publish(*stub, round, c.updates);
  const auto published = Clock::now();
  DeleteRound(*stub, round);
  return {Seconds(submitted - start).count(), Seconds(published - submitted).count()};
}

std::vector<Payloads> MakePayloads(const Case& c) {
  std::vector<Payloads> payloads(c.senders);
  for (int i = 0; i < c.updates; ++i) payloads[i % c.senders].push_back(MakePayload(c.nnz, i));
  return payloads;
}

Row Run(const ServerProcess& server, v1::Durability durability, Case c, bool quick) {
  if (quick) c.updates = std::max(c.updates / 8, c.senders);
  c.updates -= c.updates % c.senders;
  const std::vector<Payloads> payloads = MakePayloads(c);
  std::vector<double> submit_s;
  std::vector<double> publish_s;
  const auto measure = [&] {
    return c.way == Way::kFiles ? MeasureFiles(server.folder(), payloads)
                                : Measure(server.target(), durability, c, payloads);
  };
  measure();  // warms caches and allocators
  for (int i = 0; i < (quick ? 5 : kRepetitions); ++i) {
    const Measurement m = measure();
    submit_s.push_back(m.submit_s);
    publish_s.push_back(m.publish_s);
  }
  const double seconds = Median(submit_s);
  const double payload_bytes = static_cast<double>(c.nnz * kEntryBytes) * c.updates;
  const auto [fastest, slowest] = std::minmax_element(submit_s.begin(), submit_s.end());
  Row row;
  row["way"] = kWayNames[static_cast<int>(c.way)];
  row["durability"] = NameOf(durability);
  row["update_bytes"] = c.nnz * kEntryBytes;
  row["senders"] = c.senders;
  row["updates"] = c.updates;
  row["updates_per_s"] = c.updates / seconds;
  row["mb_per_s"] = payload_bytes / seconds / 1e6;
  row["spread_percent"] = (*slowest - *fastest) / seconds * 100;
  row["publish_ms"] = Median(publish_s) * 1e3;
  row["repetitions"] = submit_s.size();
  return row;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures end-to-end submission over gRPC against a server process.");
  bool quick = false;
  std::string only;
  std::string json;
  std::string program = ServerBesideThisProgram();
  app.add_flag("--quick", quick, "an eighth of the updates, five repetitions");
  app.add_option("--only", only, "cases whose name, as stream_1048536x4_durable, has a match");
  app.add_option("--json", json, "write the results to this file");
  app.add_option("--server", program, "the sparseagg program")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto server = ServerProcess::Start(program);
  if (!server.ok()) {
    std::fprintf(stderr, "submit_bench: %s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  std::vector<Row> rows;
  for (const Case& c : kCases) {
    for (const v1::Durability durability : {v1::DURABILITY_MEMORY, v1::DURABILITY_DURABLE}) {
      if (c.way == Way::kFiles && durability == v1::DURABILITY_MEMORY) continue;
      if (!std::regex_search(NameOf(c, durability), std::regex(only))) continue;
      rows.push_back(Run(**server, durability, c, quick));
      std::printf("%s\n", rows.back().dump().c_str());
      std::fflush(stdout);
    }
  }
  return json.empty() || WriteReport(json, "submit", rows) ? 0 : 1;
}

}  // namespace
}  // namespace sparseagg::bench

int main(int argc, char** argv) { return sparseagg::bench::Main(argc, argv); }
