// Tensor specifications on the command line:
//
//   NAME:TYPE:SHAPE[:sparse_dim=N][:op=OP][:overflow=checked|modular][:plan=PLAN]
//
//   emb:f32:1000x64:sparse_dim=1:op=weighted_mean     rows of 64 values
//   counts:i64:[50000]                                scalars; sparse_dim defaults to the rank
//   bias:f32:64:sparse_dim=0                          a dense tensor
//
// SHAPE is 1000x64 or [1000,64]. A name cannot contain a colon here.
#ifndef SPARSEAGG_CLIENT_CLI_TENSOR_SPEC_H_
#define SPARSEAGG_CLIENT_CLI_TENSOR_SPEC_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg::cli {

// INVALID_ARGUMENT (BAD_ARGUMENT), which names the wrong part. Limits, operators and plans are left
// to the server.
absl::StatusOr<TensorSpec> ParseTensorSpec(std::string_view text);

// The text of a spec that ParseTensorSpec() reads back.
std::string FormatTensorSpec(const TensorSpec& spec);

// Parses a value type. INVALID_ARGUMENT (BAD_ARGUMENT), which lists the types.
absl::StatusOr<ValueType> ParseTypeArgument(std::string_view text);
// The same; nullopt for "".
absl::StatusOr<std::optional<ValueType>> ParseOptionalType(std::string_view text);
absl::StatusOr<IntegerOverflow> ParseOverflowArgument(std::string_view text);

// "1000x64"
std::string FormatShape(const std::vector<int64_t>& shape);

// Returns the weight that is sent: the number rounded to f32 once. BAD_ARGUMENT if the text is not
// a number, if rounding makes it 0 or infinite, or if it is not exact in f32 and a tensor of
// integers has an operator that uses weights.
absl::StatusOr<float> ParseWeight(const std::string& text, const std::vector<TensorSpec>& specs);
// Checks a weight before the tensors are known. This and the functions below return what is wrong,
// "" for a valid value.
std::string IsWeight(const std::string& text);

// Checks a count: CLI11 would read -1 as 2^64 - 1.
std::string NotNegative(const std::string& text);

// Checks a number in [min, max]. CLI::Range would accept nan.
CLI::Validator NumberIn(double min, double max);

// Checks the address of a server.
std::string IsAddress(const std::string& text);

// Validators of options whose values are a fixed set of words.
CLI::Validator IsValueType();
CLI::Validator IsOverflow();
CLI::Validator IsEncoding();        // "auto" included
CLI::Validator IsValuesEncoding();  // "auto" included

// INVALID_ARGUMENT with the reason BAD_ARGUMENT, which ends in kExitUsage.
absl::Status BadArgument(const std::string& message);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_TENSOR_SPEC_H_
