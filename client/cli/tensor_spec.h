// Tensors on the command line:
//
//   NAME:TYPE:SHAPE[:sparse_dim=N][:op=OP][:overflow=checked|modular][:plan=PLAN]
//
//   emb:f32:1000x64:sparse_dim=1:op=weighted_mean     rows of 64 values
//   counts:i64:[50000]                                scalars; sparse_dim is the rank when not
//   given bias:f32:64:sparse_dim=0                          a dense tensor
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

// INVALID_ARGUMENT (BAD_ARGUMENT) with the part that is wrong. Does not check what the server
// checks: limits, operators, plans.
absl::StatusOr<TensorSpec> ParseTensorSpec(std::string_view text);

// The text of a spec that ParseTensorSpec() reads back.
std::string FormatTensorSpec(const TensorSpec& spec);

// Reads a value type, or fails as above with the list of them.
absl::StatusOr<ValueType> ParseTypeArgument(std::string_view text);
// The same; "" is no type.
absl::StatusOr<std::optional<ValueType>> ParseOptionalType(std::string_view text);
absl::StatusOr<IntegerOverflow> ParseOverflowArgument(std::string_view text);

// "1000x64"
std::string FormatShape(const std::vector<int64_t>& shape);

// A weight as it is sent: the text's number rounded to f32, once. BAD_ARGUMENT where it is not a
// number, where f32 makes it 0 or infinite, and where f32 has not this number, for tensors of
// integers whose operator uses weights.
absl::StatusOr<float> ParseWeight(const std::string& text, const std::vector<TensorSpec>& specs);
// A check of an option that is a weight, before the tensors are known.
std::string IsWeight(const std::string& text);

// A check of an option that is a count: CLI11 would take -1 for 2^64 - 1.
std::string NotNegative(const std::string& text);

// A check of an option that is a number of [min, max]: to CLI::Range, nan is in every range.
CLI::Validator NumberIn(double min, double max);

// Says what is wrong with the address of a server.
std::string IsAddress(const std::string& text);

// Checks of options that take a word of those the program knows.
CLI::Validator IsValueType();
CLI::Validator IsOverflow();
CLI::Validator IsEncoding();        // "auto" included
CLI::Validator IsValuesEncoding();  // "auto" included

// INVALID_ARGUMENT with the reason BAD_ARGUMENT, which ends in kExitUsage.
absl::Status BadArgument(const std::string& message);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_TENSOR_SPEC_H_
