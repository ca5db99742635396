// A federated round in C++: three contributors touch a few rows of an embedding table of a million
// rows; the server sums what they touched, exactly, and sends only that back.
//
//   cpp_client [host:port]
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "sparseagg/base/status.h"
#include "sparseagg/client/client.h"

namespace {

using sparseagg::TensorSpec;
using sparseagg::ValueType;
namespace client = sparseagg::client;

constexpr int kRowWidth = 4;

// A million rows of four f32 values, of which the first dimension is indexed.
TensorSpec EmbeddingSpec() {
  TensorSpec spec;
  spec.name = "embedding";
  spec.value_type = ValueType::kF32;
  spec.dense_shape = {1'000'000, kRowWidth};
  spec.sparse_dim = 1;
  spec.op = "weighted_mean";
  return spec;
}

// What one contributor touched: `rows`, each filled with `value`.
absl::StatusOr<client::Tensor> Touched(const std::vector<uint64_t>& rows, float value) {
  SPARSEAGG_ASSIGN_OR_RETURN(client::Tensor tensor, client::MakeEmptyTensor(EmbeddingSpec()));
  tensor.indices = rows;
  const std::vector<float> values(rows.size() * kRowWidth, value);
  tensor.values.resize(values.size() * sizeof(float));
  std::memcpy(tensor.values.data(), values.data(), tensor.values.size());
  return tensor;
}

void Print(const client::Tensor& tensor) {
  for (uint64_t entry = 0; entry < tensor.nnz(); ++entry) {
    float row[kRowWidth];
    std::memcpy(row, tensor.values.data() + entry * sizeof(row), sizeof(row));
    std::printf("row %6llu: %g %g %g %g\n", static_cast<unsigned long long>(tensor.indices[entry]),
                row[0], row[1], row[2], row[3]);
  }
}

absl::Status Run(const std::string& server) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto connection, client::Client::Connect(server));
  client::NewRound round;
  round.tensors = {EmbeddingSpec()};
  SPARSEAGG_ASSIGN_OR_RETURN(const client::RoundInfo opened, connection->CreateRound(round));
  std::printf("%s\n", opened.name.c_str());

  const std::vector<std::vector<uint64_t>> rows = {{7, 42}, {42, 999'999}, {42}};
  for (size_t i = 0; i < rows.size(); ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(const client::Tensor tensor,
                               Touched(rows[i], static_cast<float>(i + 1)));
    client::Update update;
    update.contributor = "contributor-" + std::to_string(i);
    update.weight = static_cast<float>(i + 1);  // for example the number of its examples
    update.tensors = {tensor.view()};
    SPARSEAGG_ASSIGN_OR_RETURN(const client::Receipt receipt,
                               connection->Submit(opened.name, update));
    std::printf("%s: counted as number %llu\n", receipt.contributor.c_str(),
                static_cast<unsigned long long>(receipt.sequence));
  }

  SPARSEAGG_RETURN_IF_ERROR(connection->Seal(opened.name).status());
  SPARSEAGG_RETURN_IF_ERROR(connection->Wait(opened.name).status());
  SPARSEAGG_ASSIGN_OR_RETURN(const client::Result result, connection->Pull(opened.name));
  std::printf("%llu contributors of total weight %g\n",
              static_cast<unsigned long long>(result.manifest.contributors),
              result.manifest.total_weight);
  Print(result.tensors.at(0));
  return connection->Delete(opened.name);
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? argv[1] : "127.0.0.1:50061");
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
