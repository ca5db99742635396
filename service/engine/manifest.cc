#include "service/engine/manifest.h"

#include <algorithm>
#include <tuple>

#include "service/store/array_sum.h"
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

void AddSum(std::string_view array, Sha256& digest) { HashSum(SumOf(array), digest); }

// Contributors are distinct in a round; those of a stateless reduction may be equal or empty.
void Sort(std::vector<UpdateRecord>& records) {
  std::sort(records.begin(), records.end(), [](const UpdateRecord& a, const UpdateRecord& b) {
    return std::tie(a.contributor, a.update_id, a.digest) <
           std::tie(b.contributor, b.update_id, b.digest);
  });
}

}  // namespace

Manifest DescribeResult(std::vector<UpdateRecord> records, const PublishedResult& result) {
  Sort(records);
  Manifest manifest;
  manifest.contributors = records.size();
  manifest.total_weight = TotalWeight(records);
  manifest.updates_digest = UpdatesDigest(records);
  manifest.result_digest = ResultDigest(result);
  return manifest;
}

std::string UpdatesDigest(std::span<const UpdateRecord> records) {
  Sha256 digest;
  for (const UpdateRecord& record : records) {
    digest.String(record.contributor).String(record.update_id).String(record.digest);
  }
  return digest.Finish();
}

std::string DigestOfSet(std::vector<UpdateRecord> records) {
  Sort(records);
  return UpdatesDigest(records);
}

std::string ResultDigest(const PublishedResult& result) {
  Sha256 digest;
  if (result.spec.durability == Durability::kMemory) {
    digest.String("xxh3");
    for (const SparseTensor& tensor : result.tensors) {
      AddSum(BytesOf(tensor.indices), digest);
      AddSum(BytesOf(tensor.values), digest);
    }
    return digest.Finish();
  }
  for (const SparseTensor& tensor : result.tensors) {
    digest.U64(tensor.nnz()).Bytes(BytesOf(tensor.indices));
    digest.U64(tensor.values.size()).Bytes(BytesOf(tensor.values));
  }
  return digest.Finish();
}

}  // namespace sparseagg
