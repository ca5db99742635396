#include "service/engine/result/manifest.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <tuple>

#include "service/engine/partial/round_partial.h"
#include "service/store/checksums/array_sum.h"
#include "service/store/checksums/digest.h"
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

// Calls f(bytes) for each piece of the array of row ids.
template <class F>
void ForEachPiece(const RowIds& rows, const F& f) {
  constexpr uint64_t kPieceRows = 1024;
  std::array<uint64_t, kPieceRows> buffer;
  const uint64_t piece = rows.kept().empty() ? kPieceRows : rows.size();
  for (uint64_t at = 0; at < rows.size(); at += piece) {
    f(BytesOf(rows.Piece(at, std::min(piece, rows.size() - at), buffer.data())));
  }
}

ArraySum SumByPieces(const RowIds& rows) {
  ArraySummer summer;
  ForEachPiece(rows, [&](std::string_view piece) { summer.Append(piece); });
  return summer.Finish();
}

// Returns the checksum of the array of row ids. If a result has every row, as in each round of a
// model with dense updates, the checksum depends only on the number of rows and is cached.
ArraySum SumOfRows(const RowIds& rows) {
  if (!rows.kept().empty()) return SumByPieces(rows);
  constexpr size_t kKnownMax = 1024;
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<uint64_t, ArraySum>;  // by number of rows
  {
    std::lock_guard lock(mutex);
    const auto it = known.find(rows.size());
    if (it != known.end()) return it->second;
  }
  const ArraySum sum = SumByPieces(rows);
  std::lock_guard lock(mutex);
  if (known.size() == kKnownMax) known.clear();
  known[rows.size()] = sum;
  return sum;
}

}  // namespace

// Contributors of a round are distinct; those of a stateless reduction may be equal or empty.
void SortForManifest(std::vector<UpdateRecord>& records) {
  std::sort(records.begin(), records.end(), [](const UpdateRecord& a, const UpdateRecord& b) {
    return std::tie(a.contributor, a.update_id, a.digest) <
           std::tie(b.contributor, b.update_id, b.digest);
  });
}

Manifest DescribeResult(std::vector<UpdateRecord> records, const PublishedResult& result) {
  SortForManifest(records);
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
  SortForManifest(records);
  return UpdatesDigest(records);
}

std::string ResultDigest(const PublishedResult& result) {
  if (!result.manifest.parts.empty()) return result.manifest.result_digest;
  if (result.spec.publish_partial) return std::string(PartialDigest(result.partial));
  Sha256 digest;
  if (result.spec.durability == Durability::kMemory) {
    digest.String("xxh3");
    for (const SparseTensor& tensor : result.tensors) {
      HashSum(SumOfRows(tensor.indices), digest);
      HashSum(SumOf(BytesOf(tensor.values)), digest);
    }
    return digest.Finish();
  }
  for (const SparseTensor& tensor : result.tensors) {
    digest.U64(tensor.nnz());
    ForEachPiece(tensor.indices, [&](std::string_view piece) { digest.Bytes(piece); });
    digest.U64(tensor.values.size()).Bytes(BytesOf(tensor.values));
  }
  return digest.Finish();
}

}  // namespace sparseagg
