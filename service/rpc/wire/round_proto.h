// Converts rounds, receipts and manifests between the engine's types and protobuf messages.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_ROUND_PROTO_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_ROUND_PROTO_H_

#include <chrono>
#include <optional>

#include "absl/status/statusor.h"
#include "google/protobuf/duration.pb.h"
#include "service/engine/types.h"
#include "sparseagg/v1/aggregation.pb.h"
#include "sparseagg/v1/types.pb.h"

namespace sparseagg {

v1::Durability ToProto(Durability durability);
v1::StoreEpoch ToProto(const StoreEpoch& epoch);
v1::VerifyRoundResponse ToProto(const Verification& verified);
v1::RoundSpec ToProto(const RoundSpec& spec);
v1::Leaf ToProto(const Leaf& leaf);
v1::RowRange ToProto(const RowRange& rows);
v1::Manifest ToProto(const Manifest& manifest);
v1::Round ToProto(const RoundSnapshot& round);
v1::Receipt ToProto(Receipt receipt);
v1::LeafStatus ToProto(const LeafStatus& status);
v1::ServerLoad ToProto(const EngineStats& stats);

RowRange FromProto(const v1::RowRange& rows);

// INVALID_ARGUMENT for a value that this version does not know. An unset durability becomes
// `default_durability`.
absl::StatusOr<RoundSpec> FromProto(const v1::RoundSpec& proto, Durability default_durability);

// Returns `duration` in milliseconds, at most `longest`, or `unset` if it is null. INVALID_ARGUMENT
// (INVALID_DURATION), which names `field`, for a negative or malformed duration.
absl::StatusOr<std::chrono::milliseconds> ToMilliseconds(const google::protobuf::Duration* duration,
                                                         const char* field,
                                                         std::chrono::milliseconds unset,
                                                         std::chrono::milliseconds longest);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_ROUND_PROTO_H_
