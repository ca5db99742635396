#include "service/engine/manifest.h"

#include <algorithm>
#include <tuple>

#include "service/store/digest.h"
#include "sparse/wide_integer.h"

namespace sparseagg {
namespace {

template <class Array>
std::string_view BytesOf(const Array& items) {
  return {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(items[0])};
}

double TotalWeight(std::span<const UpdateRecord> records) {
  WideInteger total;
  for (const UpdateRecord& record : records) total.Add(double{record.weight});
  return total.ToDouble();
}

}  // namespace

Manifest DescribeResult(std::vector<UpdateRecord> records, std::span<const SparseTensor> tensors) {
  // Contributors are distinct in a round; those of a stateless reduction may be equal or empty.
  std::sort(records.begin(), records.end(), [](const UpdateRecord& a, const UpdateRecord& b) {
    return std::tie(a.contributor, a.update_id, a.digest) <
           std::tie(b.contributor, b.update_id, b.digest);
  });
  Manifest manifest;
  manifest.contributors = records.size();
  manifest.total_weight = TotalWeight(records);
  manifest.updates_digest = UpdatesDigest(records);
  manifest.result_digest = ResultDigest(tensors);
  return manifest;
}

std::string UpdatesDigest(std::span<const UpdateRecord> records) {
  Sha256 digest;
  for (const UpdateRecord& record : records) {
    digest.String(record.contributor).String(record.update_id).String(record.digest);
  }
  return digest.Finish();
}

std::string ResultDigest(std::span<const SparseTensor> tensors) {
  Sha256 digest;
  for (const SparseTensor& tensor : tensors) {
    digest.U64(tensor.nnz()).Bytes(BytesOf(tensor.indices));
    digest.U64(tensor.values.size()).Bytes(BytesOf(tensor.values));
  }
  return digest.Finish();
}

}  // namespace sparseagg
