// What encodings cost: bytes an entry, and nanoseconds an entry to encode and to decode with one
// thread, in process. Many short runs of every case in turn; the best and the median of each. The
// decoded entries are compared with the ones that were encoded.
//
//   encoding_bench [--json FILE] [--rounds N] [--quick]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/report_file.h"
#include "sparse/encode.h"
#include "sparse/encoding.h"

namespace sparseagg::bench {
namespace {

struct Entries {
  std::string name;
  TensorSpec spec;
  TensorLayout layout;
  std::vector<uint64_t> rows;
  std::vector<float> values;

  CooView view() const { return {layout, rows.size(), rows.data(), values.data()}; }
};

// Each of `num_rows` rows is held with the probability `density`.
Entries MakeEntries(const std::string& name, int64_t num_rows, double density, int64_t width) {
  Entries entries;
  entries.name = name;
  entries.spec.name = name;
  entries.spec.dense_shape = {num_rows, width};
  entries.spec.sparse_dim = 1;
  entries.layout = MakeLayout(entries.spec).value();
  std::mt19937_64 random(20261121);
  const auto count = static_cast<uint64_t>(static_cast<double>(num_rows) * density);
  if (density == 1) {
    for (uint64_t row = 0; row < count; ++row) entries.rows.push_back(row);
  } else {
    std::geometric_distribution<uint64_t> gap(density);
    for (uint64_t row = gap(random); row < static_cast<uint64_t>(num_rows);
         row += 1 + gap(random)) {
      entries.rows.push_back(row);
    }
  }
  std::normal_distribution<float> normal;
  entries.values.resize(entries.rows.size() * static_cast<size_t>(width));
  for (float& value : entries.values) value = normal(random);
  return entries;
}

// One way to encode one case, measured again and again.
struct Contender {
  const Entries* entries;
  EncodeOptions options;
  std::vector<double> encode_seconds;
  std::vector<double> decode_seconds;
  uint64_t index_bytes = 0;
  uint64_t value_bytes = 0;
  bool right = true;

  void Run(std::vector<uint64_t>& rows, std::vector<float>& values) {
    using Clock = std::chrono::steady_clock;
    const auto seconds = [](Clock::time_point from) {
      return std::chrono::duration<double>(Clock::now() - from).count();
    };
    EncodedHeader header;
    header.name = entries->name;
    header.dense_shape = entries->spec.dense_shape;
    header.sparse_dim = 1;
    header.index_type = IndexType::kI32;
    std::string indices;
    std::string bytes;
    const auto encode_start = Clock::now();
    right &= EncodeTensor(entries->view(), options, header, indices, bytes).ok();
    encode_seconds.push_back(seconds(encode_start));
    const std::string_view index_piece = indices;
    const std::string_view value_piece = bytes;
    const Encoding& encoding = *FindEncoding(header.encoding).value();
    const auto decode_start = Clock::now();
    right &=
        encoding
            .decode(header, entries->spec, ByteChain(&index_piece, 1), ByteChain(&value_piece, 1),
                    {entries->layout, header.nnz, rows.data(), values.data()})
            .ok();
    decode_seconds.push_back(seconds(decode_start));
    index_bytes = indices.size();
    value_bytes = bytes.size();
    right &= std::equal(entries->rows.begin(), entries->rows.end(), rows.begin());
    const bool exact = options.values == "raw" || options.values == "auto";
    right &= !exact || std::equal(entries->values.begin(), entries->values.end(), values.begin());
  }

  Row Report() const {
    const auto nnz = static_cast<double>(entries->rows.size());
    const double output = nnz * static_cast<double>(8 + entries->layout.row_bytes());
    const double best = *std::min_element(decode_seconds.begin(), decode_seconds.end());
    const double encode = *std::min_element(encode_seconds.begin(), encode_seconds.end());
    return {{"entries", entries->name},
            {"nnz", entries->rows.size()},
            {"encoding", options.encoding},
            {"values", options.values},
            {"index_bytes_entry", static_cast<double>(index_bytes) / nnz},
            {"bytes_entry", static_cast<double>(index_bytes + value_bytes) / nnz},
            {"decode_ns_entry", best / nnz * 1e9},
            {"decode_output_gb_s", output / best / 1e9},
            {"decode_output_gb_s_median", output / Median(decode_seconds) / 1e9},
            {"encode_ns_entry", encode / nnz * 1e9},
            {"encode_ns_entry_median", Median(encode_seconds) / nnz * 1e9}};
  }
};

int Main(int argc, char** argv) {
  CLI::App app("Measures the encodings of tensors");
  std::string json;
  int rounds = 40;
  bool quick = false;
  app.add_option("--json", json, "file to write");
  app.add_option("--rounds", rounds, "runs of every case");
  app.add_flag("--quick", quick, "a tenth of the entries");
  CLI11_PARSE(app, argc, argv);
  const int64_t size = quick ? 1'000'000 : 10'000'000;
  const std::vector<Entries> cases = {MakeEntries("density 0.0001", 100 * size, 1e-4, 1),
                                      MakeEntries("density 0.01", size, 0.01, 1),
                                      MakeEntries("density 0.1", size, 0.1, 1),
                                      MakeEntries("density 0.3", size, 0.3, 1),
                                      MakeEntries("density 0.5", size, 0.5, 1),
                                      MakeEntries("density 1", size, 1, 1),
                                      MakeEntries("rows of 64, 0.01", size / 10, 0.01, 64)};
  std::vector<Contender> contenders;
  size_t rows_max = 0;
  size_t values_max = 0;
  for (const Entries& entries : cases) {
    rows_max = std::max(rows_max, entries.rows.size());
    values_max = std::max(values_max, entries.values.size());
    contenders.push_back({&entries, {.encoding = "coo.raw"}});
    for (const char* values : {"raw", "bf16", "f16", "int8", "int8.stochastic", "int4"}) {
      contenders.push_back({&entries, {.encoding = "coo.packed", .values = values}});
    }
  }
  std::vector<uint64_t> rows(rows_max);
  std::vector<float> values(values_max);
  for (int round = 0; round < rounds; ++round) {
    for (Contender& contender : contenders) contender.Run(rows, values);
  }
  std::vector<Row> report;
  bool right = true;
  for (const Contender& contender : contenders) {
    report.push_back(contender.Report());
    right &= contender.right;
  }
  if (!right) std::fprintf(stderr, "encoding_bench: decoding did not undo encoding\n");
  for (const Row& row : report) std::printf("%s\n", row.dump().c_str());
  const bool written = json.empty() || WriteReport(json, "encoding", report);
  return right && written ? 0 : 1;
}

}  // namespace
}  // namespace sparseagg::bench

int main(int argc, char** argv) { return sparseagg::bench::Main(argc, argv); }
