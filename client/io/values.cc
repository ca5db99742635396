#include "client/io/values.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/io/decimal.h"
#include "sparse/float_format.h"
#include "sparse/values.h"

namespace sparseagg::client {
namespace {

template <class T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
void Store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(value));
}

// Stores a double or an integer in `to` as a V, rounded once if V is floating. Returns false if the
// result is not finite, or V is an integer type that cannot hold the value exactly.
template <class V, class Wide>
bool StoreAs(Wide value, std::byte* to) {
  constexpr bool kFromFloating = std::is_same_v<Wide, double>;
  if constexpr (ValueTraits<V>::kFloating) {
    double rounded;
    if constexpr (kFromFloating) {
      rounded = std::copysign(RoundDouble(value, ValueTraits<V>::kFormat), value);
    } else {
      rounded = RoundScaled(value, 0, ValueTraits<V>::kFormat);
    }
    if (!std::isfinite(rounded)) return false;
    Store(ValueTraits<V>::Narrow(rounded), to);
  } else {
    if constexpr (kFromFloating) {
      if (!(std::fabs(value) <= 0x1p64) || value != std::trunc(value)) return false;
    }
    const auto integer = static_cast<Int128>(value);
    if (!FitsInteger<V>(integer)) return false;
    Store(static_cast<V>(integer), to);
  }
  return true;
}

template <class V>
std::optional<V> ParseInteger(std::string_view text) {
  V value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  const std::optional<Int128> whole = ParseWholeDecimal(text);
  if (!whole.has_value() || !FitsInteger<V>(*whole)) return std::nullopt;
  return static_cast<V>(*whole);
}

template <class T>
void AppendNumber(T value, std::string& out) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  out.append(buffer, end);
}

}  // namespace

absl::Status ConvertValues(ValueType type, Tensor& tensor) {
  const ValueType from = tensor.layout.value_type;
  if (type == from) return absl::OkStatus();
  const size_t count = tensor.values.size() / SizeOf(from);
  std::vector<std::byte> converted(count * SizeOf(type));
  const size_t good = WithValueType(from, [&](auto from_tag) {
    return WithValueType(type, [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      size_t i = 0;
      while (i < count && StoreAs<To>(ToWide(Load<From>(tensor.values.data() + i * sizeof(From))),
                                      converted.data() + i * sizeof(To))) {
        ++i;
      }
      return i;
    });
  });
  if (good < count) {
    std::string text;
    AppendValue(from, tensor.values.data() + good * SizeOf(from), text);
    return MakeError(absl::StatusCode::kOutOfRange, "VALUE_NOT_REPRESENTABLE",
                     absl::StrCat(tensor.name.empty() ? "" : "tensor \"" + tensor.name + "\": ",
                                  "value ", text, " at entry ", good / tensor.layout.row_width,
                                  " is not a number of ", std::string(ValueTypeName(type))));
  }
  tensor.values = std::move(converted);
  tensor.layout.value_type = type;
  return absl::OkStatus();
}

bool ParseValue(std::string_view text, ValueType type, std::byte* out) {
  return WithValueType(type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    if constexpr (ValueTraits<V>::kFloating) {
      const std::optional<double> value = ParseDecimal(text, ValueTraits<V>::kFormat);
      const bool good = value.has_value() && std::isfinite(*value);
      if (good) Store(ValueTraits<V>::Narrow(*value), out);
      return good;
    } else {
      const std::optional<V> value = ParseInteger<V>(text);
      if (value.has_value()) Store(*value, out);
      return value.has_value();
    }
  });
}

void AppendValue(ValueType type, const std::byte* value, std::string& out) {
  WithValueType(type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    if constexpr (std::is_arithmetic_v<V>) {
      AppendNumber(Load<V>(value), out);
    } else {
      AppendNumber(static_cast<float>(Widen(Load<V>(value))), out);
    }
  });
}

}  // namespace sparseagg::client
