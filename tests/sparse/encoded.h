// Encodes and decodes tensors for the tests of the encodings.
#ifndef SPARSEAGG_TESTS_SPARSE_ENCODED_H_
#define SPARSEAGG_TESTS_SPARSE_ENCODED_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sparse/encode.h"
#include "sparse/encoding.h"
#include "sparse/encodings/packed_block.h"
#include "sparse/validate.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {

struct Encoded {
  EncodedHeader header;
  std::string indices;
  std::string values;
};

struct Decoded {
  absl::Status status;
  std::vector<uint64_t> rows;
  std::vector<std::byte> values;

  template <class V>
  std::vector<V> ValuesAs() const {
    const auto* from = reinterpret_cast<const V*>(values.data());
    return {from, from + values.size() / sizeof(V)};
  }
};

inline TensorSpec SpecOf(std::vector<int64_t> shape, uint32_t sparse_dim,
                         ValueType type = ValueType::kF32) {
  TensorSpec spec;
  spec.name = "emb";
  spec.dense_shape = std::move(shape);
  spec.sparse_dim = sparse_dim;
  spec.value_type = type;
  return spec;
}

inline EncodedHeader HeaderOf(const TensorSpec& spec) {
  EncodedHeader header;
  header.name = spec.name;
  header.value_type = spec.value_type;
  header.dense_shape = spec.dense_shape;
  header.sparse_dim = spec.sparse_dim;
  return header;
}

template <class V>
absl::StatusOr<Encoded> TryEncode(const TensorSpec& spec, const std::vector<uint64_t>& rows,
                                  const std::vector<V>& values, const EncodeOptions& options) {
  Encoded encoded{HeaderOf(spec), {}, {}};
  const CooView entries{*MakeLayout(spec), rows.size(), rows.data(), values.data()};
  const absl::Status status =
      EncodeTensor(entries, options, encoded.header, encoded.indices, encoded.values);
  if (!status.ok()) return status;
  return encoded;
}

// Encodes rows as coo.packed with raw values.
inline Encoded Pack(const TensorSpec& spec, const std::vector<uint64_t>& rows) {
  return TryEncode(spec, rows, std::vector<float>(rows.size(), 1.0f),
                   {.encoding = "coo.packed", .values = "raw"})
      .value();
}

// Returns the directory entry of a block of coo.packed.
inline BlockEntry EntryOf(const Encoded& encoded, size_t block) {
  BlockEntry entry;
  std::memcpy(&entry, encoded.indices.data() + block * sizeof(entry), sizeof(entry));
  return entry;
}

// Replaces a directory entry by `entry` with the matching check, so that only the entry is wrong.
inline void SetEntry(Encoded& encoded, size_t block, BlockEntry entry, uint32_t num_words) {
  const size_t blocks = BlocksOf(encoded.header.nnz);
  const char* words = encoded.indices.data() + blocks * sizeof(entry) + 4 * size_t{entry.begin};
  entry.tag = entry.form() | BlockCheck(entry.first, entry.form(), words, num_words) << 8;
  std::memcpy(encoded.indices.data() + block * sizeof(entry), &entry, sizeof(entry));
}

// Cuts `bytes` into pieces of `size` bytes.
inline std::vector<std::string_view> Pieces(const std::string& bytes, size_t size) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < bytes.size(); at += size)
    pieces.push_back(std::string_view(bytes).substr(at, size));
  return pieces;
}

// Decodes in pieces with Encoding::decoder.
inline Decoded DecodeArriving(const Encoded& encoded, const TensorSpec& spec, size_t piece) {
  Decoded decoded;
  const EncodedHeader& header = encoded.header;
  const TensorLayout layout = MakeLayout(spec).value();
  decoded.rows.resize(header.nnz);
  decoded.values.resize(header.nnz * layout.row_bytes());
  const Encoding* encoding = FindEncoding(header.encoding).value();
  const auto decoder = encoding->decoder(
      header, spec, {layout, header.nnz, decoded.rows.data(), decoded.values.data()});
  for (const std::string_view bytes : Pieces(encoded.indices, piece)) {
    if (decoded.status.ok()) decoded.status = decoder->AppendIndices(bytes);
  }
  for (const std::string_view bytes : Pieces(encoded.values, piece)) {
    if (decoded.status.ok()) decoded.status = decoder->AppendValues(bytes);
  }
  if (decoded.status.ok()) {
    if (header.indices_bytes > 0) {
      EXPECT_EQ(decoder->order(), OrderOf(decoded.rows.data(), decoded.rows.size()));
    }
    EXPECT_EQ(decoder->values(), header.nnz * layout.row_width);
  }
  return decoded;
}

// Decodes as a server does: the sizes are those of the received bytes, and memory has exactly that
// size. Decoding the same pieces as they arrive must have the same outcome.
inline Decoded Decode(Encoded encoded, const TensorSpec& spec, size_t piece = 1 << 20) {
  Decoded decoded;
  encoded.header.indices_bytes = encoded.indices.size();
  encoded.header.values_bytes = encoded.values.size();
  decoded.status = InspectTensor(encoded.header, spec);
  if (!decoded.status.ok()) return decoded;
  const TensorLayout layout = MakeLayout(spec).value();
  decoded.rows.resize(encoded.header.nnz);
  decoded.values.resize(encoded.header.nnz * layout.row_bytes());
  decoded.status =
      FindEncoding(encoded.header.encoding)
          .value()
          ->decode(encoded.header, spec, Pieces(encoded.indices, piece),
                   Pieces(encoded.values, piece),
                   {layout, encoded.header.nnz, decoded.rows.data(), decoded.values.data()});
  const Decoded arriving = DecodeArriving(encoded, spec, piece);
  EXPECT_EQ(arriving.status, decoded.status);
  if (decoded.status.ok()) {
    EXPECT_EQ(arriving.rows, decoded.rows);
    EXPECT_EQ(arriving.values, decoded.values);
  }
  return decoded;
}

// Makes `count` ascending rows with gaps of 1 to `gap_max`; a row is repeated with the probability
// `repeats`.
inline std::vector<uint64_t> AscendingRows(uint64_t count, uint64_t gap_max, double repeats,
                                           uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<uint64_t> gap(1, gap_max);
  std::bernoulli_distribution repeat(repeats);
  std::vector<uint64_t> rows;
  uint64_t row = gap(random) - 1;
  for (uint64_t i = 0; i < count; ++i) {
    rows.push_back(row);
    if (!repeat(random)) row += gap(random);
  }
  return rows;
}

// Makes `count` ascending rows, those of a tensor that holds each row with the probability
// `density`.
inline std::vector<uint64_t> RowsOfDensity(uint64_t count, double density, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution held(density);
  std::vector<uint64_t> rows;
  for (uint64_t row = 0; rows.size() < count; ++row) {
    if (held(random)) rows.push_back(row);
  }
  return rows;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SPARSE_ENCODED_H_
