#include "client/cli/load/synthetic_updates.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <queue>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/tensor_spec.h"

namespace sparseagg::cli {
namespace {

using Random = std::mt19937_64;

// Sums of up to 2^17 updates with values up to 8 are exact in f32, so that computing the expected
// result involves no rounding.
constexpr int kValueMax = 8;
constexpr double kZipfExponent = 1.1;
constexpr uint64_t kUpdateBytesMax = uint64_t{4} << 30;  // the highest default of staging-bytes-max

uint64_t Below(Random& random, uint64_t limit) {
  return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random);
}

// Samples by inversion of the continuous distribution, which is accurate enough for a load.
uint64_t ZipfRow(Random& random, uint64_t num_rows) {
  const double u = std::uniform_real_distribution<double>(0, 1)(random);
  const double power = 1 - kZipfExponent;
  const double top = std::pow(static_cast<double>(num_rows) + 1, power);
  const double row = std::pow(1 + u * (top - 1), 1 / power) - 1;
  return std::min(static_cast<uint64_t>(row), num_rows - 1);
}

// The rows that are not in `absent`, whose rows ascend.
std::vector<uint64_t> AllBut(const std::vector<uint64_t>& absent, uint64_t num_rows) {
  std::vector<uint64_t> rows;
  rows.reserve(num_rows - absent.size());
  uint64_t next = 0;
  for (const uint64_t row : absent) {
    for (; next < row; ++next) rows.push_back(next);
    ++next;
  }
  for (; next < num_rows; ++next) rows.push_back(next);
  return rows;
}

// Check() bounds `nnz` so that even the last draw is likely to give a new row: for "topk" every
// fifth draw is uniform, and for "zipf" at most a tenth of the rows are drawn, so that the others
// keep a large share of the probability.
std::vector<uint64_t> DrawRows(const SyntheticShape& shape, uint64_t nnz,
                               const std::vector<uint64_t>& shared, Random& random) {
  const auto num_rows = static_cast<uint64_t>(shape.num_rows);
  if (shape.indices == "uniform" && nnz > num_rows / 2) {
    // Drawing the last rows would take hours. The complement of a uniform choice is a uniform
    // choice.
    return AllBut(DrawRows(shape, num_rows - nnz, shared, random), num_rows);
  }
  std::vector<uint64_t> rows;
  while (rows.size() < nnz) {  // distinct rows: duplicates are drawn again
    for (uint64_t i = rows.size(); i < nnz; ++i) {
      if (shape.indices == "zipf") {
        rows.push_back(ZipfRow(random, num_rows));
      } else if (!shared.empty() && Below(random, 10) < 8) {
        rows.push_back(shared[Below(random, shared.size())]);
      } else {
        rows.push_back(Below(random, num_rows));
      }
    }
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  return rows;
}

absl::Status Check(const SyntheticShape& shape) {
  if (shape.num_rows < 1 || shape.row_width < 1) {
    return BadArgument(absl::StrCat("--rows (", shape.num_rows, ") and --width (", shape.row_width,
                                    ") must be at least 1"));
  }
  if (shape.nnz_min > shape.nnz_max) {
    return BadArgument(absl::StrCat("--nnz-min (", shape.nnz_min, ") must be at most --nnz (",
                                    shape.nnz_max, ")"));
  }
  // Drawing distinct rows from a Zipf distribution is fast only while they are few.
  const auto limit = static_cast<uint64_t>(shape.num_rows) / (shape.indices == "uniform" ? 1 : 10);
  if (shape.nnz_max > std::max<uint64_t>(1, limit)) {
    return BadArgument(
        absl::StrCat("--nnz: an update of ", shape.nnz_max, " rows needs a tensor with ",
                     shape.indices == "uniform" ? "as" : "ten times as", " many; raise --rows"));
  }
  return absl::OkStatus();
}

// The number of updates in the pool, at least one. REQUIRES: the row width is valid for a tensor.
absl::StatusOr<size_t> PoolSize(const SyntheticShape& shape, size_t wanted, uint64_t bytes_max) {
  const uint64_t row_bytes =
      sizeof(uint64_t) + static_cast<uint64_t>(shape.row_width) * sizeof(float);
  if (shape.nnz_max > kUpdateBytesMax / row_bytes) {
    return BadArgument(absl::StrCat("--nnz: an update of ", shape.nnz_max, " rows of ", row_bytes,
                                    " bytes takes more than the limit of ", kUpdateBytesMax,
                                    " bytes; lower --nnz or --width"));
  }
  const uint64_t update_bytes = std::max<uint64_t>(1, shape.nnz_max * row_bytes);
  return std::clamp<uint64_t>(bytes_max / update_bytes, 1, wanted);
}

// The next entry of an update, whose rows ascend.
struct Cursor {
  uint64_t row;
  uint64_t update;
  uint64_t entry;
  bool operator>(const Cursor& other) const { return row > other.row; }
};

}  // namespace

absl::StatusOr<SyntheticUpdates> SyntheticUpdates::Make(const SyntheticShape& shape,
                                                        size_t pool_size_max,
                                                        uint64_t pool_bytes_max) {
  SPARSEAGG_RETURN_IF_ERROR(Check(shape));
  SyntheticUpdates updates;
  updates.spec_.name = "bench";
  updates.spec_.value_type = ValueType::kF32;
  updates.spec_.dense_shape = {shape.num_rows};
  if (shape.row_width > 1) updates.spec_.dense_shape.push_back(shape.row_width);
  updates.spec_.sparse_dim = 1;
  SPARSEAGG_RETURN_IF_ERROR(MakeLayout(updates.spec_).status());
  SPARSEAGG_ASSIGN_OR_RETURN(const size_t pool_size,
                             PoolSize(shape, pool_size_max, pool_bytes_max));
  Random random(shape.seed);
  std::vector<uint64_t> shared;
  if (shape.indices == "topk") {
    for (uint64_t i = 0; i < 2 * shape.nnz_max; ++i) {
      shared.push_back(Below(random, static_cast<uint64_t>(shape.num_rows)));
    }
  }
  for (size_t i = 0; i < pool_size; ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(client::Tensor tensor, client::MakeEmptyTensor(updates.spec_));
    const uint64_t nnz = shape.nnz_min + Below(random, shape.nnz_max - shape.nnz_min + 1);
    tensor.indices = DrawRows(shape, nnz, shared, random);
    std::vector<float> values(nnz * static_cast<uint64_t>(shape.row_width));
    for (float& value : values) {
      value =
          static_cast<float>(static_cast<int64_t>(Below(random, 2 * kValueMax + 1)) - kValueMax);
    }
    tensor.values.resize(values.size() * sizeof(float));
    if (!values.empty()) std::memcpy(tensor.values.data(), values.data(), tensor.values.size());
    updates.pool_.push_back(std::move(tensor));
  }
  return updates;
}

client::Tensor SyntheticUpdates::SumOf(uint64_t count) const {
  const uint64_t width = pool_[0].layout.row_width;
  std::priority_queue<Cursor, std::vector<Cursor>, std::greater<>> cursors;
  const auto push = [&](uint64_t i, uint64_t entry) {
    if (entry < tensor(i).nnz()) cursors.push({tensor(i).indices[entry], i, entry});
  };
  for (uint64_t i = 0; i < std::min<uint64_t>(count, pool_.size()); ++i) push(i, 0);
  client::Tensor sum{spec_.name, spec_.dense_shape, 1, pool_[0].layout, {}, {}};
  std::vector<float> values;
  while (!cursors.empty()) {
    const Cursor at = cursors.top();
    cursors.pop();
    if (sum.indices.empty() || sum.indices.back() != at.row) {
      sum.indices.push_back(at.row);
      values.resize(values.size() + width);
    }
    const auto times = static_cast<float>(TimesSent(at.update, count, pool_.size()));
    float* row = values.data() + values.size() - width;
    for (uint64_t c = 0; c < width; ++c) {
      float value;
      std::memcpy(&value, &tensor(at.update).values[(at.entry * width + c) * sizeof(value)],
                  sizeof(value));
      row[c] += times * value;
    }
    push(at.update, at.entry + 1);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  sum.values.assign(bytes, bytes + values.size() * sizeof(float));
  return sum;
}

}  // namespace sparseagg::cli
