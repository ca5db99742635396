// Tests README's promise from outside: a server's memory and traffic grow with the entries that
// were sent, not with the index space, for tables of any shape and without hints about the
// workload.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/effort.h"

namespace sparseagg {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Shape {
  int64_t rows;
  int64_t width;
  int contributors;
  int64_t entries;  // of each contributor, evenly spread
};

std::string NameOf(const Shape& shape) {
  return std::to_string(shape.contributors) + " x " + std::to_string(shape.entries) +
         " entries in " + std::to_string(shape.rows) + " x " + std::to_string(shape.width);
}

v1::RoundSpec RoundOf(const Shape& shape) {
  v1::RoundSpec spec;
  v1::TensorSpec& tensor = *spec.add_tensors();
  tensor = testing::VectorSpec("t", shape.rows);
  tensor.add_dense_shape(shape.width);
  tensor.set_sparse_dim(1);
  return spec;
}

// Contributor c holds entries e * step + c, all values 1.
std::vector<int64_t> RowsOf(const Shape& shape, int contributor) {
  std::vector<int64_t> rows;
  for (int64_t e = 0; e < shape.entries; ++e) {
    rows.push_back((e * (shape.rows / shape.entries) + contributor) % shape.rows);
  }
  return rows;
}

v1::SubmitUpdateRequest UpdateOf(const std::string& round, const Shape& shape, int contributor) {
  v1::Tensor tensor = testing::VectorEntries(
      "t", shape.rows, RowsOf(shape, contributor),
      std::vector<float>(static_cast<size_t>(shape.entries * shape.width), 1));
  tensor.mutable_header()->add_dense_shape(shape.width);
  return testing::VectorUpdate(round, "c" + std::to_string(contributor), tensor);
}

uint64_t BytesOf(const Shape& shape) {
  return static_cast<uint64_t>(shape.contributors * shape.entries * (8 + 4 * shape.width));
}

// Returns the bytes of resident memory: the peak ("VmHWM:") or the current value ("VmRSS:").
uint64_t Resident(pid_t pid, const std::string& key) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) << 10;
  }
  return 0;
}

// Sums every contributor's update, and returns the sum of the result's values (small integers).
double SumThrough(testing::TestClient& client, const Shape& shape) {
  const auto round = client.Create(RoundOf(shape));
  EXPECT_TRUE(round.ok()) << round.status();
  if (!round.ok()) return 0;
  for (int c = 0; c < shape.contributors; ++c) {
    const auto receipt = client.Submit(UpdateOf(round->name(), shape, c));
    EXPECT_TRUE(receipt.ok()) << receipt.status();
  }
  EXPECT_TRUE(client.Publish(round->name()).ok());
  const auto answer = client.Aggregate(round->name());
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok()) return 0;
  // The response takes the bytes of its rows, and less than 10 KB more.
  EXPECT_LE(answer->bytes.size(), BytesOf(shape) + 10'000);
  double sum = 0;
  for (const float value : testing::ArrayOf<float>(answer->values())) sum += value;
  return sum;
}

TEST(FootprintTest, OfARoundIsThatOfItsEntries) {
  for (const Shape& shape : std::vector<Shape>{
           {10'000'000, 64, 1, 1},
           {10'000'000, 64, 10, 100},
           {10'000'000, 16, 100, 1000},
           {10'000, 512, 10, 1},
           {1'000'000, 16, 10, 1000},
           {1'000'000'000, 64, 1, 100},
           {int64_t{1} << 40, 1, 10, 10'000},
       }) {
    SCOPED_TRACE(NameOf(shape));
    testing::ServerProcess server;
    testing::TestClient client(testing::NewChannel(server.address()));
    ASSERT_TRUE(client.Info().ok());
    const uint64_t idle = Resident(server.pid(), "VmRSS:");
    ASSERT_GT(idle, 0u);
    EXPECT_EQ(SumThrough(client, shape),
              static_cast<double>(shape.contributors * shape.entries * shape.width));
    const uint64_t most = Resident(server.pid(), "VmHWM:");
    // The server also holds the result, which here is as large as what was sent.
    EXPECT_LE(most, idle + 4 * 2 * BytesOf(shape) + 16 * kMiB)
        << (most - idle) / kMiB << " MiB for " << BytesOf(shape) / kMiB << " MiB of entries";
  }
}

TEST(FootprintTest, OfAnOpenRoundIsSmallHoweverLargeItsTable) {
  const int rounds = testing::Effort("SPARSEAGG_OPEN_ROUNDS", 500);
  const Shape shape{10'000'000, 64, 1, 10};
  testing::ServerProcess server({"--rounds-max=" + std::to_string(rounds)});
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Info().ok());
  const uint64_t idle = Resident(server.pid(), "VmRSS:");
  std::vector<std::string> names;
  for (int i = 0; i < rounds; ++i) {
    const auto round = client.Create(RoundOf(shape));
    ASSERT_TRUE(round.ok()) << "round " << i << ": " << round.status();
    ASSERT_TRUE(client.Submit(UpdateOf(round->name(), shape, i)).ok());
    names.push_back(round->name());
  }
  EXPECT_LE(Resident(server.pid(), "VmHWM:"),
            idle + 16 * kMiB + static_cast<uint64_t>(rounds) * 100 * 1024);
  for (int i = 0; i < rounds; ++i) {
    ASSERT_TRUE(client.Publish(names[static_cast<size_t>(i)]).ok());
    const auto answer = client.Aggregate(names[static_cast<size_t>(i)]);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(testing::ArrayOf<int64_t>(answer->indices()), RowsOf(shape, i));
    ASSERT_EQ(testing::ArrayOf<float>(answer->values()), std::vector<float>(10 * 64, 1));
  }
}

}  // namespace
}  // namespace sparseagg
