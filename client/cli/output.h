// Formats the library's structs as text and as JSON (names as in proto/sparseagg/v1; digests in
// hexadecimal, times in RFC 3339).
#ifndef SPARSEAGG_CLIENT_CLI_OUTPUT_H_
#define SPARSEAGG_CLIENT_CLI_OUTPUT_H_

#include <string>
#include <vector>

#include "client/types.h"
#include "nlohmann/json.hpp"

namespace sparseagg::cli {

nlohmann::json ToJson(const client::RoundInfo& round);
nlohmann::json ToJson(const client::Receipt& receipt);
nlohmann::json ToJson(const client::Manifest& manifest);
nlohmann::json ToJson(const client::ServerInfo& info);
nlohmann::json ToJson(const client::Verification& verified);
nlohmann::json ToJson(const std::vector<client::TensorStatus>& tensors);
// The name, type, shape and nnz of each tensor, without entries.
nlohmann::json ToJson(const std::vector<client::TensorView>& tensors);

// These texts end with a line end.
std::string ToText(const client::RoundInfo& round);
std::string ToText(const std::vector<client::RoundInfo>& rounds);  // a table
std::string ToText(const client::ServerInfo& info);

// The contributors of a round, and its goal if it has one: "37 of 100", or "37".
std::string ProgressText(const client::RoundInfo& round);

// Without a line end: "emb: sweep on cpu (asked for), nnz 30 received, 17 in the result, reduced in
// 1.5 ms (1.4 ms predicted)"; unknown times are left out.
std::string ToText(const client::TensorStatus& tensor);
// "emb f32 1000x64 sparse_dim=1 nnz=17"
std::string ToText(const client::TensorView& tensor);

// "1.5 MiB"
std::string FormatBytes(uint64_t bytes);
// "1.5 ms"
std::string FormatSeconds(double seconds);

// Writes to stdout.
void Print(const std::string& text);
void PrintJson(const nlohmann::json& json);  // indented
void PrintJsonLine(const nlohmann::json& json);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_OUTPUT_H_
