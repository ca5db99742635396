// How fast updates get from clients through gRPC into a round: a real server process, the generated
// stubs, one loopback connection for each sender. A case is (way of submission, size of an update);
// its time runs from the first byte sent to the last receipt. Sender and server share the machine's
// cores, so that the numbers are a floor.
//
//   submit_bench [--quick] [--json FILE] [--server PROGRAM]
//
// Ways: `unary` is SubmitUpdate, one call after the other; `stream` is StreamUpdates with whole
// updates, receipts read beside; `chunks` is StreamUpdates with 1 MiB chunks. Each for rounds of
// both durabilities. `files` is what the disk can do: the payloads written by as many threads
// without a server, a file each, and fdatasync() after each.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
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

enum class Way { kUnary, kStream, kChunks, kFiles };
constexpr const char* kWayNames[] = {"unary", "stream", "chunks", "files"};

struct Case {
  Way way;
  int64_t nnz;  // entries of one update
  int updates;  // of all senders together
  int senders;  // each with a connection of its own
};

constexpr Case kCases[] = {
    {Way::kUnary, 16, 4000, 1},    {Way::kUnary, 16, 4000, 8},   {Way::kStream, 16, 4000, 1},
    {Way::kStream, 16, 4000, 8},   {Way::kFiles, 16, 1000, 8},   {Way::kUnary, 910, 1920, 64},
    {Way::kFiles, 910, 1920, 64},  {Way::kUnary, 14'563, 96, 4}, {Way::kStream, 14'563, 96, 4},
    {Way::kChunks, 14'563, 96, 4}, {Way::kFiles, 14'563, 96, 4}, {Way::kChunks, 932'000, 8, 2},
    {Way::kFiles, 932'000, 8, 2},
};

// An update of `nnz` random distinct rows in random order, values in [0, 1).
v1::SubmitUpdateRequest MakeUpdate(int64_t nnz, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> indices(nnz);
  for (int64_t i = 0; i < nnz; ++i) {
    indices[i] = (i * 7919 + static_cast<int64_t>(seed) * 104'729) % kRows;
  }
  std::shuffle(indices.begin(), indices.end(), random);
  std::vector<float> values(nnz * kRowWidth);
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1p-24f;
  v1::SubmitUpdateRequest update;
  v1::Tensor& tensor = *update.add_tensors();
  tensor.set_indices(indices.data(), indices.size() * sizeof(int64_t));
  tensor.set_values(values.data(), values.size() * sizeof(float));
  v1::TensorHeader& header = *tensor.mutable_header();
  header.set_name("emb");
  header.set_value_type(v1::VALUE_TYPE_F32);
  header.add_dense_shape(kRows);
  header.add_dense_shape(kRowWidth);
  header.set_sparse_dim(1);
  header.set_nnz(nnz);
  header.set_indices_bytes(tensor.indices().size());
  header.set_values_bytes(tensor.values().size());
  return update;
}

using Updates = std::vector<v1::SubmitUpdateRequest>;

void SendUnary(Service::Stub& stub, const Updates& updates) {
  for (const v1::SubmitUpdateRequest& update : updates) {
    grpc::ClientContext context;
    v1::Receipt receipt;
    Check(stub.SubmitUpdate(&context, update, &receipt), "SubmitUpdate");
  }
}

using UpdateStream = grpc::ClientReaderWriter<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>;

void WriteWhole(UpdateStream& stream, const v1::SubmitUpdateRequest& update) {
  v1::StreamUpdatesRequest request;
  *request.mutable_update() = update;
  stream.Write(request);
}

void WriteChunks(UpdateStream& stream, const v1::SubmitUpdateRequest& update) {
  v1::StreamUpdatesRequest request;
  *request.mutable_begin()->mutable_header() = update.header();
  *request.mutable_begin()->add_tensors() = update.tensors(0).header();
  stream.Write(request);
  const std::string bytes = update.tensors(0).indices() + update.tensors(0).values();
  v1::UpdateChunk& chunk = *request.mutable_chunk();
  chunk.set_update_id(update.header().update_id());
  for (size_t offset = 0; offset < bytes.size(); offset += kChunkBytes) {
    chunk.set_offset(offset);
    chunk.set_data(bytes.substr(offset, kChunkBytes));
    stream.Write(request);
  }
}

void SendStream(Service::Stub& stub, const Updates& updates,
                void (*write)(UpdateStream&, const v1::SubmitUpdateRequest&)) {
  grpc::ClientContext context;
  const auto stream = stub.StreamUpdates(&context);
  std::thread writer([&] {
    for (const v1::SubmitUpdateRequest& update : updates) write(*stream, update);
    stream->WritesDone();
  });
  size_t receipts = 0;
  v1::StreamUpdatesResponse response;
  while (stream->Read(&response)) {
    if (response.has_error()) {
      Check(grpc::Status(grpc::StatusCode::UNKNOWN, response.error().message()), "StreamUpdates");
    }
    receipts += response.has_receipt() ? 1 : 0;
  }
  writer.join();
  Check(stream->Finish(), "StreamUpdates");
  if (receipts != updates.size()) {
    Check(grpc::Status(grpc::StatusCode::DATA_LOSS, "receipts are missing"), "StreamUpdates");
  }
}

void Send(Way way, Service::Stub& stub, const Updates& updates) {
  switch (way) {
    case Way::kUnary:
      return SendUnary(stub, updates);
    case Way::kStream:
      return SendStream(stub, updates, WriteWhole);
    case Way::kChunks:
      return SendStream(stub, updates, WriteChunks);
    case Way::kFiles:
      return;
  }
}

// What `files` measures: returns when every payload is on stable storage.
void WriteFiles(const std::string& folder, const Updates& updates) {
  for (const v1::SubmitUpdateRequest& update : updates) {
    const std::string path = absl::StrCat(folder, "/", update.header().contributor());
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const std::string& indices = update.tensors(0).indices();
    const std::string& values = update.tensors(0).values();
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

Measurement MeasureFiles(const std::string& folder, const std::vector<Updates>& updates) {
  const auto start = Clock::now();
  std::vector<std::thread> writers;
  for (const Updates& mine : updates) writers.emplace_back([&] { WriteFiles(folder, mine); });
  for (std::thread& writer : writers) writer.join();
  return {Seconds(Clock::now() - start).count(), 0};
}

Measurement Measure(const std::string& target, v1::Durability durability, const Case& c,
                    std::vector<Updates>& updates) {
  std::vector<std::unique_ptr<Service::Stub>> stubs;
  for (int s = 0; s < c.senders; ++s) stubs.push_back(Service::NewStub(Connect(target)));
  const std::string round = CreateRound(*stubs[0], durability, kRows, kRowWidth);
  for (Updates& mine : updates) {
    for (v1::SubmitUpdateRequest& update : mine) update.mutable_header()->set_round(round);
  }
  const auto start = Clock::now();
  std::vector<std::thread> senders;
  for (int s = 0; s < c.senders; ++s) {
    senders.emplace_back([&, s] { Send(c.way, *stubs[s], updates[s]); });
  }
  for (std::thread& sender : senders) sender.join();
  const auto submitted = Clock::now();
  Publish(*stubs[0], round, c.updates);
  const auto published = Clock::now();
  DeleteRound(*stubs[0], round);
  return {Seconds(submitted - start).count(), Seconds(published - submitted).count()};
}

std::vector<Updates> MakeUpdates(const Case& c) {
  std::vector<Updates> updates(c.senders);
  for (int i = 0; i < c.updates; ++i) {
    v1::SubmitUpdateRequest update = MakeUpdate(c.nnz, i);
    update.mutable_header()->set_contributor(absl::StrCat("contributor-", i));
    update.mutable_header()->set_update_id(absl::StrCat("update-", i));
    updates[i % c.senders].push_back(std::move(update));
  }
  return updates;
}

Row Run(const ServerProcess& server, v1::Durability durability, Case c, bool quick) {
  if (quick) c.updates = std::max(c.updates / 8, c.senders);
  std::vector<Updates> updates = MakeUpdates(c);
  std::vector<double> submit_s;
  std::vector<double> publish_s;
  const auto measure = [&] {
    return c.way == Way::kFiles ? MeasureFiles(server.folder(), updates)
                                : Measure(server.target(), durability, c, updates);
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
  row["durability"] = durability == v1::DURABILITY_DURABLE ? "durable" : "memory";
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
  std::string json;
  std::string program = ServerBesideThisProgram();
  app.add_flag("--quick", quick, "an eighth of the updates, five repetitions");
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
