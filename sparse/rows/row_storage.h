// Where the rows of an update's entries are, and in which form. Most rows are wide; the compact
// forms take less memory and time while an update waits to be added, and a back end requests them
// where it can read them (Aggregator::StageIncremental).
#ifndef SPARSEAGG_SPARSE_ROWS_ROW_STORAGE_H_
#define SPARSEAGG_SPARSE_ROWS_ROW_STORAGE_H_

#include <cstdint>
#include <span>
#include <variant>

namespace sparseagg {

class NarrowRows;

// Does not own the rows. An accessor returns null, or no bytes, if they have another form.
template <class Word, class Byte, class Narrow>
class BasicRowStorage {
 public:
  BasicRowStorage() = default;
  BasicRowStorage(Word* wide) : rows_(wide) {}
  explicit BasicRowStorage(std::span<Byte> packed) : rows_(packed) {}
  explicit BasicRowStorage(Narrow* narrow) : rows_(narrow) {}
  // Rows that may be written can be read.
  template <class W, class B, class N>
  BasicRowStorage(const BasicRowStorage<W, B, N>& other)
      : rows_(std::visit([](auto rows) { return BasicRowStorage(rows).rows_; }, other.form())) {}

  // The flattened row of each entry: [nnz].
  Word* wide() const { return Get<Word*>(); }
  // The bytes of coo.packed (packed_rows.h); kBlockSlackBytes more are readable.
  std::span<Byte> packed() const { return Get<std::span<Byte>>(); }
  // Two bytes for each entry, unless they have been widened since (narrow_rows.h).
  Narrow* narrow() const { return Get<Narrow*>(); }

  using Form = std::variant<Word*, std::span<Byte>, Narrow*>;
  const Form& form() const { return rows_; }

 private:
  template <class T>
  T Get() const {
    const T* rows = std::get_if<T>(&rows_);
    return rows == nullptr ? T{} : *rows;
  }

  Form rows_ = static_cast<Word*>(nullptr);
};

using RowStorage = BasicRowStorage<uint64_t, char, NarrowRows>;  // for a decoder to write
using RowView = BasicRowStorage<const uint64_t, const char, const NarrowRows>;

// The compact forms in which a tensor's rows can be delivered.
struct CompactRowForms {
  uint64_t packed_bytes = 0;  // > 0: packed, in this many bytes
  bool narrow = false;        // narrow, unless a row turns out to descend
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ROWS_ROW_STORAGE_H_
