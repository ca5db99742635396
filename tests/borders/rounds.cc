#include "tests/borders/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "sparse/encode.h"
#include "sparse/encodings/coo_packed.h"
#include "sparse/encodings/packed_block.h"
#include "sparse/ops/all.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "sparse/values.h"
#include "tests/support/effort.h"

namespace sparseagg::testing {
namespace {

template <size_t kSize>
uint64_t AnyOf(const uint64_t (&list)[kSize], Random& random) {
  return list[Below(random, kSize)];
}

// --- Sizes of index spaces: on borders, one below, one above, and others ---

constexpr uint64_t kSmallSpaces[] = {
    1,    2,    31,   255,  256,  257,  511,  512,  513,  640,  1000, 1023,  1024,  1025,  2047,
    2048, 2049, 4095, 4096, 4097, 5000, 6143, 8191, 8192, 8193, 9999, 12288, 16383, 16384, 16385};
constexpr uint64_t kMediumSpaces[] = {30'011, 32'767, 32'768, 32'769, 65'535,
                                      65'536, 65'537, 70'000, 98'304};
constexpr uint64_t kLargeSpaces[] = {131'071, 131'072, 131'073, 196'608, 200'003, 262'145};
constexpr uint64_t kHugeSpaces[] = {uint64_t{1} << 20, uint64_t{1} << 33, uint64_t{1} << 62};

// Tiles of each instruction set, words, blocks, visits of both kinds, windows, segments.
constexpr uint64_t kRowBorders[] = {8,    16,   32,   64,     256,    512,    1024,
                                    4096, 8192, 8192, 16'384, 32'768, 65'536, 65'536};

// --- Rows ---

// Walks over the rows region by region: regions differ in how their rows follow one another, and
// end on borders.
class RowWalk {
 public:
  RowWalk(uint64_t num_rows, uint64_t entries_max, Random& random)
      : num_rows_(num_rows), entries_max_(entries_max), random_(random) {
    twice_between_blocks_ = kTwice[Below(random, std::size(kTwice))];
    twice_on_rows_ = OneIn(random, 2) ? 0 : AnyOf(kRowBorders, random);
    twice_anywhere_ = OneIn(random, 8) ? 1 + Below(random, 300) : 0;
  }

  std::vector<uint64_t> Walk() {
    if (OneIn(random_, 3)) row_ = Below(random_, std::min<uint64_t>(num_rows_, 70));
    while (row_ < num_rows_ && rows_.size() < entries_max_) Region();
    if (rows_.size() > entries_max_) rows_.resize(entries_max_);
    return std::move(rows_);
  }

 private:
  enum class Style { kFull, kWithoutEach, kOneOrTwo, kDensity, kApart, kNone, kRepeats, kOneRow };
  // Of the last entry of how many blocks the row begins the next one, too: 0 of none, else of each
  // n-th at random.
  static constexpr uint64_t kTwice[] = {0, 0, 1, 1, 2, 4};

  void Region() {
    const auto style = static_cast<Style>(Below(random_, 8));
    const uint64_t step = 2 + Below(random_, OneIn(random_, 2) ? 6 : 70);
    const double density = static_cast<double>(1 + Below(random_, 19)) / 20;
    std::bernoulli_distribution held(density);
    const uint64_t row_end = RowEnd();
    const uint64_t entry_end = OneIn(random_, 2) ? EntryEnd() : entries_max_;
    if (style == Style::kOneRow) return OneRow();
    if (style == Style::kNone) {
      row_ = row_end;
      return;
    }
    for (; row_ < row_end && rows_.size() < entry_end; ++row_) {
      if (style == Style::kWithoutEach && row_ % step == 0) continue;
      if (style == Style::kDensity && !held(random_)) continue;
      if (style == Style::kApart && row_ % step != 0) continue;
      Push(row_);
      if (style == Style::kRepeats && OneIn(random_, step)) Push(row_);
      if (style == Style::kOneOrTwo && OneIn(random_, 2)) ++row_;
    }
  }

  // A border of rows, or one beside it.
  uint64_t RowEnd() {
    const uint64_t border = AnyOf(kRowBorders, random_);
    const uint64_t end = (row_ / border + 1 + (OneIn(random_, 3) ? Below(random_, 4) : 0)) * border;
    return std::min(num_rows_, OneIn(random_, 3) ? end - 1 + Below(random_, 3) : end);
  }
  // A border of blocks, or one beside it.
  uint64_t EntryEnd() {
    const uint64_t blocks = rows_.size() / kBlockEntries + 1 + Below(random_, 4);
    const uint64_t end = blocks * kBlockEntries;
    return std::min(entries_max_, OneIn(random_, 3) ? end - 1 + Below(random_, 3) : end);
  }
  // One row for a block or more.
  void OneRow() {
    if (OneIn(random_, 4)) {
      const uint64_t end = std::min(entries_max_, EntryEnd());
      while (rows_.size() < end) rows_.push_back(row_);
    }
    ++row_;
  }

  void Push(uint64_t row) {
    rows_.push_back(row);
    const bool block_ends = rows_.size() % kBlockEntries == 0;
    const bool on_border =
        twice_on_rows_ != 0 && (row % twice_on_rows_ == 0 || (row + 1) % twice_on_rows_ == 0);
    if ((block_ends && twice_between_blocks_ != 0 && OneIn(random_, twice_between_blocks_)) ||
        (on_border && OneIn(random_, 2)) ||
        (twice_anywhere_ != 0 && OneIn(random_, twice_anywhere_))) {
      rows_.push_back(row);
      if (OneIn(random_, 16)) rows_.push_back(row);
    }
  }

  const uint64_t num_rows_;
  const uint64_t entries_max_;
  Random& random_;
  uint64_t twice_between_blocks_;
  uint64_t twice_on_rows_;   // 0: none
  uint64_t twice_anywhere_;  // 0: none
  uint64_t row_ = 0;
  std::vector<uint64_t> rows_;
};

// Numbers of entries where something changes: whole blocks, a quarter and a half of the rows
// (Aggregator::StageIncremental), the least for narrow rows, what one window takes.
uint64_t EntriesMax(uint64_t num_rows, Random& random) {
  const uint64_t borders[] = {kBlockEntries * (1 + Below(random, 9)),
                              num_rows / 4,
                              num_rows / 2,
                              num_rows / 256,
                              uint64_t{1} << 14,
                              num_rows};
  const uint64_t all = 2 * num_rows;
  if (OneIn(random, 2)) return all;
  const uint64_t border = AnyOf(borders, random);
  return std::clamp<uint64_t>(border + Below(random, 3), 1, all + 1) - 1;
}

// Few blocks, anywhere in a space that no plan has a cell for each row of.
std::vector<uint64_t> FarApart(uint64_t num_rows, uint64_t entries_max, Random& random) {
  std::vector<uint64_t> rows;
  while (rows.size() < entries_max) {
    const uint64_t first = random() % (num_rows - 4096);
    for (const uint64_t row : RowWalk(4096, 1 + Below(random, 1500), random).Walk()) {
      rows.push_back(first + row);
    }
    if (OneIn(random, 3)) break;
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

template <class T>
void Permute(std::vector<T>& items, const std::vector<size_t>& order, size_t width) {
  std::vector<T> moved;
  moved.reserve(items.size());
  for (const size_t i : order) {
    moved.insert(moved.end(), items.begin() + static_cast<std::ptrdiff_t>(i * width),
                 items.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
  }
  items = std::move(moved);
}

// The entries of the update in any order.
void Shuffle(Update& update, uint64_t row_bytes, Random& random) {
  std::vector<size_t> order(update.rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  Permute(update.rows, order, 1);
  Permute(update.values, order, row_bytes);
}

// --- Values ---

// Small whole numbers, of which no two neighbours are equal: a value in its neighbour's row shows.
template <class V>
std::vector<std::byte> WholeNumbers(uint64_t count, Random& random) {
  std::vector<std::byte> bytes(count * sizeof(V));
  uint64_t number = random();
  const uint64_t step = 1 + Below(random, 96);
  for (uint64_t i = 0; i < count; ++i, number += step) {
    V value;
    if constexpr (ValueTraits<V>::kFloating) {
      value = ValueTraits<V>::Narrow(static_cast<double>(1 + number % 97));
    } else {
      value = static_cast<V>(1 + number % 97);
    }
    std::memcpy(bytes.data() + i * sizeof(V), &value, sizeof(V));
  }
  return bytes;
}

ValueType AnyType(Random& random) {
  return OneIn(random, 2) ? ValueType::kF32
                          : kAllValueTypes[Below(random, std::size(kAllValueTypes))];
}

// --- Rounds ---

void ChooseShape(BorderRound& round, Scale scale, Random& random) {
  const uint64_t size = Below(random, 200);
  const bool core = scale == Scale::kCore;
  uint64_t num_rows = AnyOf(kSmallSpaces, random);
  if (!round.whole_numbers && OneIn(random, 4)) num_rows = AnyOf(kHugeSpaces, random);
  if (round.whole_numbers && size < 10) num_rows = AnyOf(kMediumSpaces, random);
  if (round.whole_numbers && size == 10 && core) num_rows = AnyOf(kLargeSpaces, random);
  uint64_t width = 1;
  if (num_rows < 5000 && OneIn(random, 5)) width = AnyOf({2, 3, 7, 8, 9, 16, 17, 33}, random);
  round.tensor.sparse_dim = 1;
  round.tensor.dense_shape = {static_cast<int64_t>(num_rows)};
  if (num_rows % 8 == 0 && OneIn(random, 8)) {
    round.tensor.sparse_dim = 2;
    round.tensor.dense_shape = {static_cast<int64_t>(num_rows / 8), 8};
  }
  if (core && OneIn(random, 400)) {  // one row, by columns
    round.tensor.sparse_dim = 0;
    round.tensor.dense_shape.clear();
    width = 131'071 + Below(random, 4);
  }
  if (width > 1) round.tensor.dense_shape.push_back(static_cast<int64_t>(width));
}

Update MakeUpdate(const BorderRound& round, Values kind, Random& random) {
  const TensorLayout& layout = round.spec.layout;
  Update update;
  const uint64_t entries_max = EntriesMax(layout.num_rows, random);
  if (round.tensor.sparse_dim == 0) {
    if (!OneIn(random, 8)) update.rows = {0};
  } else if (layout.num_rows >= kHugeSpaces[0]) {
    update.rows = FarApart(layout.num_rows, 2000, random);
  } else {
    update.rows = RowWalk(layout.num_rows, entries_max, random).Walk();
  }
  const uint64_t count = update.rows.size() * layout.row_width;
  if (round.whole_numbers) {
    update.weight = static_cast<float>(1 + Below(random, 3));
    update.values = WithValueType(layout.value_type, [&](auto tag) {
      return WholeNumbers<typename decltype(tag)::type>(count, random);
    });
  } else {
    update.weight = MakeWeight(round.spec, kind, random);
    update.values = MakeValues(round.spec, count, kind, random);
  }
  if (OneIn(random, 8) && round.tensor.sparse_dim > 0) {
    Shuffle(update, layout.row_bytes(), random);
  }
  return update;
}

template <class V>
int64_t ToWhole(V value) {
  if constexpr (ValueTraits<V>::kFloating) {
    return static_cast<int64_t>(Widen(value));
  } else {
    return static_cast<int64_t>(value);
  }
}

template <class V>
Aggregate SumWholeNumbers(const BorderRound& round) {
  const TensorLayout& layout = round.spec.layout;
  const uint64_t width = layout.row_width;
  std::vector<int64_t> sums(layout.num_rows * width);
  std::vector<char> held(layout.num_rows);
  uint64_t addends = 0;
  for (const Update& update : round.updates) {
    const auto* values = reinterpret_cast<const V*>(update.values.data());
    const auto weight = static_cast<int64_t>(update.weight);
    addends += update.rows.size();
    for (size_t e = 0; e < update.rows.size(); ++e) {
      const uint64_t row = update.rows[e];
      held[row] = 1;
      for (uint64_t c = 0; c < width; ++c) {
        sums[row * width + c] += weight * ToWhole(values[e * width + c]);
      }
    }
  }
  Aggregate result;
  result.addends = addends;
  HostVector<uint64_t> rows;
  HostVector<std::byte>& bytes = result.tensor.values;
  for (uint64_t row = 0; row < layout.num_rows; ++row) {
    if (held[row] == 0) continue;
    rows.push_back(row);
    for (uint64_t c = 0; c < width; ++c) {
      const int64_t sum = sums[row * width + c];
      V value;
      if constexpr (ValueTraits<V>::kFloating) {
        const double rounded = RoundDouble(static_cast<double>(sum), ValueTraits<V>::kFormat);
        result.infinite_values += std::isinf(rounded) ? 1 : 0;
        value = ValueTraits<V>::Narrow(rounded);
      } else {
        value = static_cast<V>(sum);
      }
      const auto* from = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), from, from + sizeof(V));
    }
  }
  result.tensor.layout = layout;
  result.tensor.indices = RowIds(std::move(rows));
  return result;
}

// --- On the wire ---

// Each block in a form that can hold it: the one that a sender would choose, one with more bits
// than needed, one for rows that repeat, or a bitmap.
PackedForm AnyForm(const uint64_t* rows, uint32_t count, Random& random) {
  uint64_t largest = 0;
  bool repeats = false;
  for (uint32_t i = 1; i < count; ++i) {
    largest = std::max(largest, rows[i] - rows[i - 1]);
    repeats |= rows[i] == rows[i - 1];
  }
  const auto any_width = [&](uint64_t most) {
    const uint32_t more = OneIn(random, 4) ? static_cast<uint32_t>(Below(random, 3)) : 0;
    return std::min(static_cast<uint32_t>(std::bit_width(most)) + more, kPackedWidthMax);
  };
  const uint64_t choice = Below(random, 6);
  if (choice == 0) {
    const uint32_t width = any_width(largest);
    return {kRepeatsForm + width, PackedWords(count, width)};
  }
  if (choice == 1 && !repeats) {
    const uint32_t width = any_width(count > 1 ? largest - 1 : 0);
    return {width, PackedWords(count, width)};
  }
  const uint64_t words = (rows[count - 1] - rows[0]) / 32 + 1;
  if (choice == 2 && !repeats && words <= kBlockWordsMax) {
    return {kBitmapForm, static_cast<uint32_t>(words)};
  }
  return ChoosePackedForm(rows, count);
}

void PackInAnyForms(const std::vector<uint64_t>& rows, Random& random, std::string& out) {
  const uint64_t blocks = BlocksOf(rows.size());
  const bool usual = OneIn(random, 2);
  std::string words_of_all;
  uint32_t begin = 0;
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint64_t* from = rows.data() + b * kBlockEntries;
    const auto count =
        static_cast<uint32_t>(std::min<uint64_t>(kBlockEntries, rows.size() - b * kBlockEntries));
    const PackedForm plan = usual ? ChoosePackedForm(from, count) : AnyForm(from, count, random);
    std::array<uint32_t, kBlockWordsMax> words;
    PackBlock(from, count, plan, words.data());
    const uint32_t check = BlockCheck(*from, plan.form, words.data(), plan.words);
    const BlockEntry entry{*from, begin, plan.form | check << 8};
    out.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
    words_of_all.append(reinterpret_cast<const char*>(words.data()), plan.words * sizeof(uint32_t));
    begin += plan.words;
  }
  out += words_of_all;
}

std::string_view BytesOf(const Update& update) {
  return {reinterpret_cast<const char*>(update.values.data()), update.values.size()};
}

}  // namespace

BorderRound MakeBorderRound(uint64_t seed, Scale scale) {
  Random random(seed);
  BorderRound round;
  round.seed = seed;
  round.tensor.name = "t";
  round.whole_numbers = !OneIn(random, 20);
  ChooseShape(round, scale, random);
  round.tensor.value_type = AnyType(random);
  const uint64_t num_rows = MakeLayout(round.tensor)->num_rows;
  Values kind = Values::kSmall;
  if (!round.whole_numbers) {
    round.tensor.op = std::string(AllOps::kNames[Below(random, AllOps::kNames.size())]);
    kind = kAllValues[Below(random, std::size(kAllValues))];
    const bool is_mean = round.tensor.op.find("mean") != std::string::npos;
    if (kind == Values::kHostile && !is_mean) {
      round.tensor.integer_overflow = IntegerOverflow::kModular;
    }
  }
  round.spec = *MakeReduceSpec(round.tensor);
  const bool few = num_rows > kSmallSpaces[std::size(kSmallSpaces) - 1];
  const uint64_t updates = 1 + Below(random, few ? 4 : 12);
  for (uint64_t u = 0; u < updates; ++u) {
    Update update = MakeUpdate(round, kind, random);
    const CooView entries{round.spec.layout, update.rows.size(), update.rows.data(),
                          update.values.data()};
    if (ValidateUpdate(round.spec, entries, update.weight).ok()) {
      round.updates.push_back(std::move(update));
    }
  }
  return round;
}

void ForEachSeed(uint64_t wanted, const uint64_t& updates,
                 const std::function<bool(uint64_t seed)>& check) {
  const int only = Effort("SPARSEAGG_BORDER_SEED", -1);
  if (only >= 0) {
    check(static_cast<uint64_t>(only));
    return;
  }
  int wrong = 0;
  uint64_t seed = 0;
  while (updates < wanted && wrong < 3 && !::testing::Test::HasFatalFailure()) {
    wrong += check(seed++) ? 0 : 1;
  }
  std::cout << updates << " updates in " << seed << " rounds\n";
}

std::string Describe(const BorderRound& round) {
  std::string text = absl::StrCat("SPARSEAGG_BORDER_SEED=", round.seed, ": ", round.spec.op, " of ",
                                  std::string(ValueTypeName(round.spec.layout.value_type)), ", ",
                                  round.spec.layout.num_rows, " rows of ",
                                  round.spec.layout.row_width, ", entries:");
  for (const Update& update : round.updates) absl::StrAppend(&text, " ", update.rows.size());
  return text;
}

absl::StatusOr<Aggregate> ExactResult(const BorderRound& round) {
  if (!round.whole_numbers) {
    static Backend& reference = *MakeReferenceBackend({})->release();
    return Reduce(reference, round.spec, round.updates);
  }
  return WithValueType(round.spec.layout.value_type, [&](auto tag) {
    return SumWholeNumbers<typename decltype(tag)::type>(round);
  });
}

EncodedEntries Encode(const BorderRound& round, const Update& update, Wire wire, Random& random) {
  EncodedEntries encoded;
  EncodedHeader& header = encoded.header;
  header.name = round.tensor.name;
  header.value_type = round.tensor.value_type;
  header.dense_shape = round.tensor.dense_shape;
  header.sparse_dim = round.tensor.sparse_dim;
  const bool is_short = round.spec.layout.num_rows <= uint64_t{1} << 31;
  if (wire == Wire::kRawShort && is_short) header.index_type = IndexType::kI32;
  const uint64_t nnz = update.rows.size();
  const EntryOrder order = OrderOf(update.rows.data(), nnz);
  if (wire == Wire::kPackedForms && order != EntryOrder::kUnsorted && header.sparse_dim > 0) {
    header.encoding = "coo.packed";
    header.nnz = nnz;
    PackInAnyForms(update.rows, random, encoded.indices);
    encoded.values = BytesOf(update);
    header.indices_bytes = encoded.indices.size();
    header.values_bytes = encoded.values.size();
    return encoded;
  }
  EncodeOptions options{.encoding = "coo.raw", .values = "raw"};
  if (wire == Wire::kPackedForms) options.encoding = "coo.packed";
  if (wire == Wire::kAuto) options = {};
  const absl::Status status =
      EncodeTensor({round.spec.layout, nnz, update.rows.data(), update.values.data()}, options,
                   header, encoded.indices, encoded.values);
  EXPECT_TRUE(status.ok()) << status;
  return encoded;
}

std::vector<std::string_view> RandomPieces(std::string_view bytes, Random& random) {
  constexpr uint64_t kSizes[] = {7, 64, 1000, 1024, 4096, 65'536, 1 << 20};
  const uint64_t most = std::max<uint64_t>(AnyOf(kSizes, random), bytes.size() / 64);
  const bool equal = OneIn(random, 2);
  std::vector<std::string_view> pieces;
  while (!bytes.empty()) {
    pieces.push_back(bytes.substr(0, equal ? most : 1 + Below(random, most)));
    bytes.remove_prefix(pieces.back().size());
  }
  return pieces;
}

}  // namespace sparseagg::testing
