#include "client/cli/tensor_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/io/decimal.h"
#include "client/transport/address.h"
#include "sparse/encoding.h"
#include "sparse/ops/all.h"

namespace sparseagg::cli {
namespace {

template <class T>
bool ParseInteger(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

absl::StatusOr<std::vector<int64_t>> ParseShape(std::string_view text) {
  const std::string whole(text);
  char separator = 'x';
  if (text.starts_with('[') && text.ends_with(']')) {
    separator = ',';
    text = text.substr(1, text.size() - 2);
  }
  std::vector<int64_t> shape;
  for (const std::string& part :
       std::vector<std::string>(absl::StrSplit(std::string(text), separator))) {
    const size_t begin = part.find_first_not_of(' ');
    const std::string_view number =
        begin == std::string::npos ? "" : std::string_view(part).substr(begin);
    int64_t length = 0;
    if (!ParseInteger(number, length) || length < 1) {
      return BadArgument(
          absl::StrCat("shape \"", whole,
                       "\" is not a list of lengths of at least 1, such as 1000x64 or [1000,64]"));
    }
    shape.push_back(length);
  }
  return shape;
}

absl::Status ParseOption(const std::string& text, TensorSpec& spec) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (value.empty()) return BadArgument(absl::StrCat("\"", text, "\" is not name=value"));
  if (name == "sparse_dim") {
    if (!ParseInteger(value, spec.sparse_dim) || spec.sparse_dim > spec.dense_shape.size()) {
      return BadArgument(
          absl::StrCat("sparse_dim \"", value, "\" is not in [0, ", spec.dense_shape.size(), "]"));
    }
  } else if (name == "op") {
    spec.op = value;
  } else if (name == "overflow") {
    SPARSEAGG_ASSIGN_OR_RETURN(spec.integer_overflow, ParseOverflowArgument(value));
  } else if (name == "plan") {
    spec.plan = value;
  } else {
    return BadArgument(absl::StrCat(
        "\"", name, "\" is unknown; the options are sparse_dim, op, overflow and plan"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorSpec> Parse(const std::vector<std::string>& parts) {
  if (parts.size() < 3 || parts[0].empty()) {
    return BadArgument("expected NAME:TYPE:SHAPE, for example emb:f32:1000x64:sparse_dim=1:op=sum");
  }
  TensorSpec spec;
  spec.name = parts[0];
  SPARSEAGG_ASSIGN_OR_RETURN(spec.value_type, ParseTypeArgument(parts[1]));
  SPARSEAGG_ASSIGN_OR_RETURN(spec.dense_shape, ParseShape(parts[2]));
  spec.sparse_dim = static_cast<uint32_t>(spec.dense_shape.size());
  for (size_t i = 3; i < parts.size(); ++i) {
    SPARSEAGG_RETURN_IF_ERROR(ParseOption(parts[i], spec));
  }
  return spec;
}

bool UsesWeights(const std::string& op) {
  bool uses = true;  // the value for operators unknown here
  AllOps::With(op, [&](auto known) { uses = kUsesWeights<decltype(known)>; });
  return uses;
}

}  // namespace

absl::StatusOr<float> ParseWeight(const std::string& text, const std::vector<TensorSpec>& specs) {
  const std::string number(absl::StripAsciiWhitespace(text));
  const std::optional<double> weight = client::ParseDecimal(number, kFormatF32);
  if (!weight.has_value()) {
    double other = 0;
    if (absl::SimpleAtod(number, &other) && !std::isfinite(other)) {
      return static_cast<float>(other);  // "nan" or "inf", which the server refuses
    }
    return BadArgument(absl::StrCat("the weight \"", text, "\" is not a number"));
  }
  const auto refused = [&number](const char* why) {
    return BadArgument(absl::StrCat("the weight ", number, " is ", why));
  };
  const bool is_exact = std::isfinite(*weight) &&
                        client::CompareDecimal(number, *weight) == std::strong_ordering::equal;
  if (*weight == 0 && !is_exact) return refused("0 as f32, which weights are");
  if (!std::isfinite(*weight)) return refused("infinite as f32, which weights are");
  const bool has_weighted_integers = std::any_of(
      specs.begin(), specs.end(),
      [](const TensorSpec& spec) { return !IsFloating(spec.value_type) && UsesWeights(spec.op); });
  if (has_weighted_integers && !is_exact) {
    return refused(
        "not a number of f32, which weights are; integers take whole weights up to 2^24");
  }
  return static_cast<float>(*weight);
}

std::string IsWeight(const std::string& text) {
  const absl::StatusOr<float> weight = ParseWeight(text, {});
  return weight.ok() ? std::string() : std::string(weight.status().message());
}

std::string NotNegative(const std::string& text) {
  return text.starts_with('-') ? absl::StrCat(text, " is negative") : std::string();
}

CLI::Validator NumberIn(double min, double max) {
  const std::string range = absl::StrCat("[", min, ", ", max, "]");
  const auto check = [=](const std::string& text) {
    double number = 0;
    return absl::SimpleAtod(text, &number) && number >= min && number <= max
               ? std::string()
               : absl::StrCat(text, " is not a number in ", range);
  };
  return {check, absl::StrCat("FLOAT in ", range)};
}

std::string IsAddress(const std::string& text) {
  return std::string(client::ParseAddress(text).status().message());
}

CLI::Validator IsValueType() {
  std::vector<std::string> names;
  for (const ValueType type : kAllValueTypes) names.emplace_back(ValueTypeName(type));
  return CLI::IsMember(names);
}

CLI::Validator IsOverflow() { return CLI::IsMember({"checked", "modular"}); }

CLI::Validator IsEncoding() {
  std::vector<std::string> names = {"auto"};
  for (const Encoding& encoding : AllEncodings()) names.emplace_back(encoding.name);
  return CLI::IsMember(names);
}

CLI::Validator IsValuesEncoding() {
  std::vector<std::string> names = {"auto"};
  for (const std::string_view name : AllValuesEncodings()) names.emplace_back(name);
  return CLI::IsMember(names);
}

absl::Status BadArgument(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", message);
}

absl::StatusOr<ValueType> ParseTypeArgument(std::string_view text) {
  if (const std::optional<ValueType> type = ParseValueType(text)) return *type;
  std::vector<std::string> names;
  for (const ValueType type : kAllValueTypes) names.emplace_back(ValueTypeName(type));
  return BadArgument(
      absl::StrCat("type \"", std::string(text), "\" is not one of ", absl::StrJoin(names, " ")));
}

absl::StatusOr<std::optional<ValueType>> ParseOptionalType(std::string_view text) {
  if (text.empty()) return std::nullopt;
  SPARSEAGG_ASSIGN_OR_RETURN(const ValueType type, ParseTypeArgument(text));
  return type;
}

absl::StatusOr<IntegerOverflow> ParseOverflowArgument(std::string_view text) {
  if (text == "checked") return IntegerOverflow::kChecked;
  if (text == "modular") return IntegerOverflow::kModular;
  return BadArgument(
      absl::StrCat("overflow \"", std::string(text), "\" is neither checked nor modular"));
}

absl::StatusOr<TensorSpec> ParseTensorSpec(std::string_view text) {
  const std::string whole(text);
  absl::StatusOr<TensorSpec> spec = Parse(absl::StrSplit(whole, ':'));
  if (spec.ok()) return spec;
  return BadArgument(
      absl::StrCat("tensor \"", whole, "\": ", std::string(spec.status().message())));
}

std::string FormatShape(const std::vector<int64_t>& shape) {
  return shape.empty() ? "[]" : absl::StrJoin(shape, "x");
}

std::string FormatTensorSpec(const TensorSpec& spec) {
  std::string text =
      absl::StrCat(spec.name, ":", std::string(ValueTypeName(spec.value_type)), ":",
                   FormatShape(spec.dense_shape), ":sparse_dim=", spec.sparse_dim, ":op=", spec.op);
  if (spec.integer_overflow == IntegerOverflow::kModular)
    absl::StrAppend(&text, ":overflow=modular");
  if (!spec.plan.empty()) absl::StrAppend(&text, ":plan=", spec.plan);
  return text;
}

}  // namespace sparseagg::cli
