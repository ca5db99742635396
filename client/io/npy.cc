#include "client/io/npy.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/io/file_error.h"
#include "client/tensor.h"

namespace sparseagg::client {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderBytesMax = kNpyHeadBytesMax - 12;
// More than NumPy's own limit (32 before version 2, then 64).
constexpr size_t kDimensionsMax = 64;
constexpr size_t kTextLengthMax = 1024;
constexpr size_t kUnicodeBytes = 4;  // bytes of a character of kind U

// Reads the Python dictionary of a header, from front to back.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // Returns what is wrong, "" for a valid header.
  std::string Parse(std::string& descr, bool& fortran_order, std::vector<int64_t>& shape) {
    bool seen[3] = {};
    if (!Eat('{')) return "the header is not a dictionary";
    while (!Eat('}')) {
      std::string key;
      if (!String(key) || !Eat(':')) return "the header is not a dictionary of names";
      bool good = true;
      int field = 0;
      if (key == "descr") {
        good = String(descr);
      } else if (key == "fortran_order") {
        field = 1;
        good = Boolean(fortran_order);
      } else if (key == "shape") {
        field = 2;
        good = Tuple(shape);
      } else {
        return absl::StrCat("the header has an unknown name '", key, "'");
      }
      if (!good) {
        return absl::StrCat("the header's '", key, "' is not ",
                            field == 0   ? "one of the plain types"
                            : field == 1 ? "True or False"
                                         : "a tuple of lengths");
      }
      if (std::exchange(seen[field], true)) return absl::StrCat("the header repeats '", key, "'");
      Eat(',');
    }
    return seen[0] && seen[1] && seen[2] ? "" : "the header lacks descr, fortran_order or shape";
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool Eat(char c) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool Word(std::string_view word) {
    SkipBlanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  bool String(std::string& out) {
    SkipBlanks();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return false;
    out = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return true;
  }
  bool Boolean(bool& out) {
    out = Word("True");
    return out || Word("False");
  }
  bool Tuple(std::vector<int64_t>& out) {
    if (!Eat('(')) return false;
    while (!Eat(')')) {
      SkipBlanks();
      int64_t length = 0;
      const char* end = text_.data() + text_.size();
      const auto [next, error] = std::from_chars(text_.data() + at_, end, length);
      if (error != std::errc() || length < 0 || out.size() == kDimensionsMax) return false;
      at_ = static_cast<size_t>(next - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 on Windows
      out.push_back(length);
      if (!Eat(',') && (at_ == text_.size() || text_[at_] != ')')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

struct Descr {
  char kind = 'f';
  size_t item_bytes = 4;
  bool big_endian = false;
};

// "<f4" -> kind f, 4 bytes. Elements of one byte have no order: "|u1".
std::optional<Descr> ParseDescr(std::string_view descr) {
  constexpr std::string_view kOrders = "<>=|";  // "=" is the machine's order, which is "<"
  if (descr.size() < 3 || kOrders.find(descr[0]) == std::string_view::npos) return std::nullopt;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), number);
  if (error != std::errc() || end != descr.data() + descr.size() || number == 0)
    return std::nullopt;
  Descr parsed{descr[1], number, descr[0] == '>'};
  switch (parsed.kind) {
    case 'f':
    case 'i':
    case 'u':
    case 'b':
      if (number > 8 || (number > 1 && descr[0] == '|')) return std::nullopt;
      return parsed;
    case 'V':  // two opaque bytes to NumPy: bfloat16 of ml_dtypes
      if (number != 2 || parsed.big_endian) return std::nullopt;
      return parsed;
    case 'S':
    case 'U':
      if (number > kTextLengthMax) return std::nullopt;
      if (parsed.kind == 'U') parsed.item_bytes = kUnicodeBytes * number;
      return parsed;
    default:
      return std::nullopt;
  }
}

// Advice for an element type that is not supported.
std::string_view DescrAdvice(std::string_view descr) {
  const char kind = descr.size() < 2 ? '\0' : descr[1];
  if (kind == 'O') return "an object, and loading it could run code of the file; save numbers";
  if (kind == 'c') return "complex; save .real and .imag as separate arrays";
  if (kind == 'M' || kind == 'm') return "a time; save it as numbers";
  return "not a number of at most 64 bits or text; convert it with astype()";
}

// The product of the shape and the element's size; nullopt beyond 2^63.
std::optional<uint64_t> DataBytes(const NpyArray& array) {
  unsigned __int128 bytes = array.item_bytes;
  for (const int64_t length : array.shape) {
    if (length == 0) return 0;
  }
  for (const int64_t length : array.shape) {
    bytes *= static_cast<uint64_t>(length);
    if (bytes >= (static_cast<unsigned __int128>(1) << 63)) return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

// The part of a file before the elements.
struct Header {
  NpyArray array;  // without `file`
  bool big_endian = false;
  bool fortran_order = false;
};

// Parses the header at the beginning of `head`, itself the beginning of a file of `file_bytes`
// bytes. Returns "" when all is well, else what is wrong.
std::string ParseHeader(std::string_view head, uint64_t file_bytes, Header& header) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(head[i])); };
  if (head.size() < 10 || !head.starts_with(kMagic) || byte(6) < 1 || byte(6) > 3) {
    return "is not a NumPy array (.npy version 1 to 3)";
  }
  const size_t prefix = byte(6) == 1 ? 10 : 12;
  size_t header_bytes = byte(8) | byte(9) << 8;
  if (head.size() < prefix) return "ends inside its header";
  if (prefix == 12) header_bytes |= byte(10) << 16 | byte(11) << 24;
  if (header_bytes > kHeaderBytesMax || header_bytes > file_bytes - prefix) {
    return absl::StrCat("states a header of ", header_bytes, " bytes; at most ", kHeaderBytesMax,
                        " and the member's length are possible");
  }
  if (header_bytes > head.size() - prefix) return "has a header that was not read to its end";
  std::string descr;
  std::string problem = HeaderParser(head.substr(prefix, header_bytes))
                            .Parse(descr, header.fortran_order, header.array.shape);
  if (!problem.empty()) return problem;
  const std::optional<Descr> parsed = ParseDescr(descr);
  if (!parsed.has_value()) {
    return absl::StrCat("type ", Quoted(descr), " is ", std::string(DescrAdvice(descr)));
  }
  header.array.kind = parsed->kind;
  header.array.item_bytes = parsed->item_bytes;
  header.big_endian = parsed->big_endian;
  header.array.data_begin = prefix + header_bytes;
  return "";
}

// Converts big-endian elements to little-endian ones.
void SwapBytes(NpyArray& array) {
  const size_t unit = array.kind == 'U' ? kUnicodeBytes : array.kind == 'S' ? 1 : array.item_bytes;
  char* const data = array.file.data() + array.data_begin;
  const size_t bytes = array.data().size();
  for (size_t at = 0; at < bytes; at += unit) std::reverse(data + at, data + at + unit);
}

// Converts Fortran order (the first index runs fastest) to C order (the last index does).
void TurnRound(NpyArray& array) {
  const size_t rank = array.shape.size();
  if (rank < 2 || array.size() == 0) return;
  std::vector<uint64_t> stride(rank);  // of each index in the stored array, in elements
  uint64_t step = 1;
  for (size_t d = 0; d < rank; ++d) {
    stride[d] = step;
    step *= static_cast<uint64_t>(array.shape[d]);
  }
  const std::string stored(array.data());
  char* out = array.file.data() + array.data_begin;
  std::vector<int64_t> index(rank, 0);
  uint64_t from = 0;
  for (uint64_t i = 0; i < step; ++i) {
    std::memcpy(out + i * array.item_bytes, stored.data() + from * array.item_bytes,
                array.item_bytes);
    for (size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < array.shape[d]) break;
      from -= stride[d] * static_cast<uint64_t>(array.shape[d]);
      index[d] = 0;
    }
  }
}

// "has -1 at [1, 0]": an element and its value.
template <class T>
std::string Element(const NpyArray& array, size_t position, T value) {
  std::vector<int64_t> index(array.shape.size());
  UnflattenIndex(position, array.shape, index);
  return absl::StrCat("has ", +value, " at [", absl::StrJoin(index, ", "), "]");
}

// Widens integers to four bytes.
template <class From>
std::vector<std::byte> WidenIntegers(const NpyArray& array) {
  const size_t count = array.size();
  const char* const from = array.data().data();
  std::vector<std::byte> values(count * sizeof(int32_t));
  for (size_t i = 0; i < count; ++i) {
    From narrow;
    std::memcpy(&narrow, from + i * sizeof(From), sizeof(From));
    const int32_t wide = array.kind == 'b' ? narrow != 0 : narrow;
    std::memcpy(values.data() + i * sizeof(wide), &wide, sizeof(wide));
  }
  return values;
}

// Appends the elements. Returns the first that is less than `min` or at least 2^63, as text; "" if
// there is none.
template <class T>
std::string AppendIntegers(const NpyArray& array, int64_t min, std::vector<int64_t>& out) {
  const std::string_view data = array.data();
  out.resize(array.size());
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    if (!std::in_range<int64_t>(value) || static_cast<int64_t>(value) < min) {
      return Element(array, i, value);
    }
    out[i] = static_cast<int64_t>(+value);  // int8_t is a number here, not a character
  }
  return "";
}

absl::StatusOr<std::vector<int64_t>> ToIntegersFrom(int64_t min, const NpyArray& array,
                                                    const std::string& path,
                                                    const std::string& where) {
  const std::string dtype = array.dtype();
  std::vector<int64_t> out;
  if (array.size() == 0 && array.kind != 'S' && array.kind != 'U') return out;
  std::string bad;
  const auto append = [&]<class T>(std::string_view of_dtype, T) {
    if (dtype != of_dtype) return false;
    bad = AppendIntegers<T>(array, min, out);
    return true;
  };
  const bool is_integer = append("|i1", int8_t{}) || append("<i2", int16_t{}) ||
                          append("<i4", int32_t{}) || append("<i8", int64_t{}) ||
                          append("|u1", uint8_t{}) || append("<u2", uint16_t{}) ||
                          append("<u4", uint32_t{}) || append("<u8", uint64_t{});
  if (!is_integer) {
    return MalformedFile(
        path, where,
        absl::StrCat("type '", dtype, "' is not one of i1 to u8; ", "convert it with astype()"));
  }
  if (bad.empty()) return out;
  return MalformedFile(
      path, where,
      absl::StrCat(bad, ", which is ", min == 0 ? "negative, or " : "", "2^63 or more"));
}

}  // namespace

std::string NpyArray::dtype() const {
  return absl::StrCat(item_bytes == 1 || kind == 'V' ? "|" : "<", std::string(1, kind),
                      kind == 'U' ? item_bytes / kUnicodeBytes : item_bytes);
}

absl::StatusOr<NpyArray> ParseNpy(std::string file, const std::string& path,
                                  const std::string& where) {
  Header header;
  const std::string problem = ParseHeader(file, file.size(), header);
  if (!problem.empty()) return MalformedFile(path, where, problem);
  NpyArray& array = header.array;
  const std::optional<uint64_t> bytes = DataBytes(array);
  if (!bytes.has_value() || *bytes != file.size() - array.data_begin) {
    return MalformedFile(
        path, where,
        absl::StrCat("the shape needs ", bytes.has_value() ? absl::StrCat(*bytes) : "2^63 or more",
                     " bytes, there are ", file.size() - array.data_begin));
  }
  array.file = std::move(file);
  if (header.big_endian) SwapBytes(array);
  if (header.fortran_order) TurnRound(array);
  return std::move(array);
}

std::optional<NpyArray> ParseNpyHead(std::string_view head, uint64_t file_bytes) {
  Header header;
  if (!ParseHeader(head, file_bytes, header).empty()) return std::nullopt;
  return std::move(header.array);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t bytes_max) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) {
    return FileUnusable(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  std::string content;
  std::string buffer(size_t{1} << 20, '\0');
  for (;;) {
    const size_t got = std::fread(buffer.data(), 1, buffer.size(), file.get());
    if (got == 0) break;
    if (got > bytes_max - content.size()) {
      return FileTooLarge(path, "", absl::StrCat("has more than ", bytes_max, " bytes"));
    }
    content.append(buffer, 0, got);
  }
  if (std::ferror(file.get()) != 0) {
    return FileUnusable(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  return content;
}

std::string NpyHeader(std::string_view descr, std::span<const int64_t> shape) {
  std::string tuple;
  for (const int64_t length : shape) absl::StrAppend(&tuple, length, ", ");
  if (shape.size() > 1) tuple.resize(tuple.size() - 2);
  if (shape.size() == 1) tuple.pop_back();  // "(3,)"
  std::string text = absl::StrCat("{'descr': '", std::string(descr),
                                  "', 'fortran_order': False, 'shape': (", tuple, "), }");
  constexpr size_t kAlignment = 64;
  const size_t unpadded = kMagic.size() + 4 + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text.push_back('\n');
  std::string header(kMagic);
  header.push_back('\x01');
  header.push_back('\x00');
  header.push_back(static_cast<char>(text.size() & 0xFF));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

std::string_view NpyDescr(ValueType type) {
  switch (type) {
    case ValueType::kF16:
      return "<f2";
    case ValueType::kBF16:
      return "<u2";
    case ValueType::kF32:
      return "<f4";
    case ValueType::kF64:
      return "<f8";
    case ValueType::kI32:
      return "<i4";
    case ValueType::kI64:
      return "<i8";
    case ValueType::kU32:
      return "<u4";
    case ValueType::kU64:
      return "<u8";
  }
  return "";
}

std::optional<ValueType> NpyValueType(const NpyArray& array) {
  const std::string dtype = array.dtype();
  if (dtype == "|i1" || dtype == "<i2") return ValueType::kI32;
  if (dtype == "|b1" || dtype == "|u1" || dtype == "<u2") return ValueType::kU32;
  if (dtype == "|V2") return ValueType::kBF16;
  for (const ValueType type : kAllValueTypes) {
    if (type != ValueType::kBF16 && NpyDescr(type) == dtype) return type;
  }
  return std::nullopt;
}

std::vector<std::byte> ToValues(const NpyArray& array, ValueType type) {
  if (array.item_bytes != SizeOf(type)) {
    const std::string dtype = array.dtype();
    if (dtype == "|i1") return WidenIntegers<int8_t>(array);
    if (dtype == "<i2") return WidenIntegers<int16_t>(array);
    if (dtype == "<u2") return WidenIntegers<uint16_t>(array);
    return WidenIntegers<uint8_t>(array);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(array.data().data());
  return {bytes, bytes + array.data().size()};
}

absl::StatusOr<std::vector<int64_t>> ToIntegers(const NpyArray& array, const std::string& path,
                                                const std::string& where) {
  return ToIntegersFrom(0, array, path, where);
}

absl::StatusOr<std::vector<int64_t>> ToSignedIntegers(const NpyArray& array,
                                                      const std::string& path,
                                                      const std::string& where) {
  return ToIntegersFrom(std::numeric_limits<int64_t>::min(), array, path, where);
}

std::optional<std::string> ToText(const NpyArray& array) {
  if ((array.kind != 'S' && array.kind != 'U') || array.size() != 1) return std::nullopt;
  const size_t step = array.kind == 'U' ? 4 : 1;
  std::string text;
  for (size_t i = 0; i < array.item_bytes; i += step) {
    const char c = array.data()[i];
    if (c != '\0') text.push_back(c);
  }
  return text;
}

}  // namespace sparseagg::client
