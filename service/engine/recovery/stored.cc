#include "service/engine/recovery/stored.h"

#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/recovery/strict_json.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

using json = StrictJson;
using std::chrono::milliseconds;
using Time = std::chrono::system_clock::time_point;

constexpr uint64_t kEveryRow = kNumRowsMax;  // added to nnz if the rows are not written

absl::Status Damaged(std::string_view what) {
  return StoreCorrupt(absl::StrCat("the stored ", std::string(what), " cannot be read"));
}

// Replaces invalid UTF-8: names are validated, but a failure may quote any bytes.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Enum values start at 1.
template <class Enum>
Enum EnumOf(const json& value, Enum last) {
  const auto number = value.get<int64_t>();
  if (number < 1 || number > static_cast<int64_t>(last)) throw NotWritten();
  return static_cast<Enum>(number);
}

ValueType ValueTypeOf(const json& name) {
  const std::optional<ValueType> type = ParseValueType(name.get<std::string>());
  return type.has_value() ? *type : throw NotWritten();
}

// Runs `read` on the parsed text; the library reports wrong types by exceptions.
template <class Read>
absl::Status Parse(std::string_view text, std::string_view what, Read read) {
  try {
    read(json::parse(text));
    return absl::OkStatus();
  } catch (const json::exception&) {
    return Damaged(what);
  } catch (const NotWritten&) {
    return Damaged(what);
  }
}

int64_t Count(Time time) { return time.time_since_epoch().count(); }
Time TimeOf(int64_t count) { return Time(Time::duration(count)); }

std::optional<Time> OptionalTime(const json& value, const char* key) {
  if (!value.contains(key)) return std::nullopt;
  return TimeOf(value.at(key).get<int64_t>());
}

std::optional<milliseconds> OptionalMs(const json& value, const char* key) {
  if (!value.contains(key)) return std::nullopt;
  return milliseconds(value.at(key).get<int64_t>());
}

json ToJson(const TensorSpec& spec) {
  return {{"name", spec.name},
          {"value_type", ValueTypeName(spec.value_type)},
          {"dense_shape", spec.dense_shape},
          {"sparse_dim", spec.sparse_dim},
          {"op", spec.op},
          {"integer_overflow", static_cast<int>(spec.integer_overflow)},
          {"plan", spec.plan}};
}

TensorSpec ToSpec(const json& value) {
  TensorSpec spec;
  value.at("name").get_to(spec.name);
  spec.value_type = ValueTypeOf(value.at("value_type"));
  value.at("dense_shape").get_to(spec.dense_shape);
  value.at("sparse_dim").get_to(spec.sparse_dim);
  value.at("op").get_to(spec.op);
  spec.integer_overflow = EnumOf(value.at("integer_overflow"), IntegerOverflow::kModular);
  spec.plan = value.value("plan", "");
  return spec;
}

json ToJson(const RoundPolicy& policy) {
  json value = {{"goal", policy.goal_contributors},
                {"grace_ms", policy.grace.count()},
                {"min", policy.min_contributors},
                {"max", policy.max_contributors}};
  if (policy.open_for) value["open_for_ms"] = policy.open_for->count();
  if (policy.open_until) value["open_until"] = Count(*policy.open_until);
  if (policy.leaf_wait) value["leaf_wait_ms"] = policy.leaf_wait->count();
  return value;
}

RoundPolicy ToPolicy(const json& value) {
  RoundPolicy policy;
  value.at("goal").get_to(policy.goal_contributors);
  policy.grace = milliseconds(value.at("grace_ms").get<int64_t>());
  value.at("min").get_to(policy.min_contributors);
  value.at("max").get_to(policy.max_contributors);
  policy.open_for = OptionalMs(value, "open_for_ms");
  policy.open_until = OptionalTime(value, "open_until");
  policy.leaf_wait = OptionalMs(value, "leaf_wait_ms");
  return policy;
}

json ToJson(const RowRange& rows) {
  return {rows.first.tensor, rows.first.row, rows.end.tensor, rows.end.row};
}

RowRange ToRowRange(const json& value) {
  RowRange rows;
  value.at(0).get_to(rows.first.tensor);
  value.at(1).get_to(rows.first.row);
  value.at(2).get_to(rows.end.tensor);
  value.at(3).get_to(rows.end.row);
  return rows;
}

json ToJson(const std::vector<ResultPart>& parts) {
  json list = json::array();
  for (const ResultPart& part : parts) {
    list.push_back({part.owner.id, part.owner.address, part.round, ToJson(part.rows)});
  }
  return list;
}

std::vector<ResultPart> ToParts(const json& list) {
  std::vector<ResultPart> parts;
  for (const json& part : list) {
    parts.push_back({{part.at(0).get<std::string>(), part.at(1).get<std::string>()},
                     part.at(2).get<std::string>(),
                     ToRowRange(part.at(3))});
  }
  return parts;
}

json ToJson(const DividedResult& divided) {
  return {{"parts", ToJson(divided.parts)},
          {"nnz", divided.nnz},
          {"infinite_values", divided.infinite_values},
          {"updates_digest", absl::BytesToHexString(divided.updates_digest)},
          {"result_digest", absl::BytesToHexString(divided.result_digest)}};
}

DividedResult ToDivided(const json& value) {
  DividedResult divided;
  divided.parts = ToParts(value.at("parts"));
  value.at("nnz").get_to(divided.nnz);
  value.at("infinite_values").get_to(divided.infinite_values);
  divided.updates_digest = absl::HexStringToBytes(value.at("updates_digest").get<std::string>());
  divided.result_digest = absl::HexStringToBytes(value.at("result_digest").get<std::string>());
  return divided;
}

json ToJson(const RoundTree& tree) {
  json value = {{"self", tree.self}, {"leaves", json::array()}};
  for (const Leaf& leaf : tree.leaves) value["leaves"].push_back({leaf.id, leaf.address});
  if (tree.owners) value["owners"] = true;
  if (!tree.root_round.empty()) value["root_round"] = tree.root_round;
  if (tree.part) value["part"] = {tree.part->round, ToJson(tree.part->rows)};
  return value;
}

RoundTree ToTree(const json& value) {
  RoundTree tree = {.leaves = {}, .self = value.at("self").get<std::string>()};
  for (const json& leaf : value.at("leaves")) {
    tree.leaves.push_back({leaf.at(0).get<std::string>(), leaf.at(1).get<std::string>()});
  }
  tree.owners = value.value("owners", false);
  tree.root_round = value.value("root_round", "");
  if (value.contains("part")) {
    const json& part = value.at("part");
    tree.part = {part.at(0).get<std::string>(), ToRowRange(part.at(1))};
  }
  return tree;
}

std::optional<SealReason> ToSealReason(const json& value) {
  if (!value.contains("seal_reason")) return std::nullopt;
  return EnumOf(value.at("seal_reason"), SealReason::kDeadline);
}

json ToJson(const Manifest& manifest) {
  json value = {{"contributors", manifest.contributors},
                {"total_weight", manifest.total_weight},
                {"rejected", manifest.rejected},
                {"late", manifest.late},
                {"duplicates", manifest.duplicates},
                {"updates_digest", absl::BytesToHexString(manifest.updates_digest)},
                {"result_digest", absl::BytesToHexString(manifest.result_digest)},
                {"infinite_values", manifest.infinite_values},
                {"publish_time", Count(manifest.publish_time)}};
  if (manifest.seal_reason) value["seal_reason"] = static_cast<int>(*manifest.seal_reason);
  if (!manifest.given_up_leaves.empty()) value["given_up_leaves"] = manifest.given_up_leaves;
  if (!manifest.parts.empty()) value["parts"] = ToJson(manifest.parts);
  return value;
}

Manifest ToManifest(const json& value) {
  Manifest manifest;
  value.at("contributors").get_to(manifest.contributors);
  value.at("total_weight").get_to(manifest.total_weight);
  value.at("rejected").get_to(manifest.rejected);
  manifest.late = value.value("late", manifest.late);
  value.at("duplicates").get_to(manifest.duplicates);
  manifest.updates_digest = absl::HexStringToBytes(value.at("updates_digest").get<std::string>());
  manifest.result_digest = absl::HexStringToBytes(value.at("result_digest").get<std::string>());
  value.at("infinite_values").get_to(manifest.infinite_values);
  manifest.publish_time = TimeOf(value.at("publish_time").get<int64_t>());
  manifest.seal_reason = ToSealReason(value);
  manifest.given_up_leaves = value.value("given_up_leaves", manifest.given_up_leaves);
  if (value.contains("parts")) manifest.parts = ToParts(value.at("parts"));
  return manifest;
}

// Takes `bytes` from the front of `rest`.
bool Take(std::string_view& rest, void* to, size_t bytes) {
  if (rest.size() < bytes) return false;
  if (bytes != 0) std::memcpy(to, rest.data(), bytes);
  rest.remove_prefix(bytes);
  return true;
}

}  // namespace

std::string WriteDescription(const RoundDescription& description) {
  json tensors = json::array();
  for (const TensorSpec& spec : description.args.spec.tensors) tensors.push_back(ToJson(spec));
  json value = {{"round_id", description.args.round_id},
                {"request_id", description.args.request_id},
                {"durability", static_cast<int>(description.args.spec.durability)},
                {"tensors", std::move(tensors)},
                {"policy", ToJson(description.args.spec.policy)},
                {"keep_updates", description.args.spec.keep_updates},
                {"publish_partial", description.args.spec.publish_partial},
                {"create_time", Count(description.create_time)}};
  if (const RoundTree& tree = description.args.spec.tree; !tree.leaves.empty()) {
    value["tree"] = ToJson(tree);
  }
  return Dump(value);
}

absl::StatusOr<RoundDescription> ReadDescription(std::string_view text) {
  RoundDescription description;
  SPARSEAGG_RETURN_IF_ERROR(Parse(text, "description of a round", [&](const json& value) {
    value.at("round_id").get_to(description.args.round_id);
    value.at("request_id").get_to(description.args.request_id);
    RoundSpec& spec = description.args.spec;
    spec.durability = EnumOf(value.at("durability"), Durability::kDurable);
    for (const json& tensor : value.at("tensors")) spec.tensors.push_back(ToSpec(tensor));
    spec.keep_updates = value.value("keep_updates", false);
    spec.publish_partial = value.value("publish_partial", false);
    if (value.contains("policy")) spec.policy = ToPolicy(value.at("policy"));
    if (value.contains("tree")) spec.tree = ToTree(value.at("tree"));
    description.create_time = TimeOf(value.at("create_time").get<int64_t>());
  }));
  return description;
}

std::string WriteDetails(const RoundSnapshot& snapshot) {
  json details = {{"contributors", snapshot.contributors},
                  {"bytes_received", snapshot.bytes_received},
                  {"failure", snapshot.failure},
                  {"tensors", json::array()}};
  for (const TensorStatus& tensor : snapshot.tensors) {
    details["tensors"].push_back({{"name", tensor.name},
                                  {"backend", tensor.backend},
                                  {"plan", tensor.reduction.plan},
                                  {"nnz_received", tensor.nnz_received},
                                  {"nnz_result", tensor.nnz_result}});
  }
  if (snapshot.seal_time) details["seal_time"] = Count(*snapshot.seal_time);
  if (snapshot.publish_time) details["publish_time"] = Count(*snapshot.publish_time);
  if (snapshot.abort_time) details["abort_time"] = Count(*snapshot.abort_time);
  if (snapshot.seal_reason) details["seal_reason"] = static_cast<int>(*snapshot.seal_reason);
  if (snapshot.manifest) details["manifest"] = ToJson(*snapshot.manifest);
  if (snapshot.divided) details["divided"] = ToJson(*snapshot.divided);
  return Dump(details);
}

absl::Status ReadDetails(std::string_view text, RoundSnapshot& snapshot) {
  return Parse(text, "state of a round", [&](const json& value) {
    value.at("contributors").get_to(snapshot.contributors);
    value.at("bytes_received").get_to(snapshot.bytes_received);
    value.at("failure").get_to(snapshot.failure);
    snapshot.tensors.clear();
    for (const json& tensor : value.at("tensors")) {
      TensorStatus& status = snapshot.tensors.emplace_back();
      tensor.at("name").get_to(status.name);
      tensor.at("backend").get_to(status.backend);
      tensor.at("plan").get_to(status.reduction.plan);
      tensor.at("nnz_received").get_to(status.nnz_received);
      tensor.at("nnz_result").get_to(status.nnz_result);
    }
    snapshot.seal_time = OptionalTime(value, "seal_time");
    snapshot.publish_time = OptionalTime(value, "publish_time");
    snapshot.abort_time = OptionalTime(value, "abort_time");
    snapshot.seal_reason = ToSealReason(value);
    if (value.contains("manifest")) snapshot.manifest = ToManifest(value.at("manifest"));
    if (value.contains("divided")) snapshot.divided = ToDivided(value.at("divided"));
  });
}

std::string WriteAnchor(const RoundAnchor& anchor) {
  json value = {{"wall", Count(anchor.wall)}};
  if (anchor.until_deadline) value["until_deadline_ms"] = anchor.until_deadline->count();
  if (anchor.until_grace_end) value["until_grace_end_ms"] = anchor.until_grace_end->count();
  return Dump(value);
}

absl::StatusOr<RoundAnchor> ReadAnchor(std::string_view text) {
  RoundAnchor anchor;
  SPARSEAGG_RETURN_IF_ERROR(Parse(text, "clock of a round", [&](const json& value) {
    anchor.wall = TimeOf(value.at("wall").get<int64_t>());
    anchor.until_deadline = OptionalMs(value, "until_deadline_ms");
    anchor.until_grace_end = OptionalMs(value, "until_grace_end_ms");
  }));
  return anchor;
}

std::string WriteUpload(float weight, std::span<const EncodedHeader> headers) {
  return absl::StrCat(absl::Hex(std::bit_cast<uint32_t>(weight)), " ", WriteHeaders(headers));
}

std::string WriteHeaders(std::span<const EncodedHeader> headers) {
  json list = json::array();
  for (const EncodedHeader& header : headers) {
    list.push_back({{"name", header.name},
                    {"encoding", header.encoding},
                    {"value_type", static_cast<int>(header.value_type)},
                    {"dense_shape", header.dense_shape},
                    {"sparse_dim", header.sparse_dim},
                    {"index_type", static_cast<int>(header.index_type)},
                    {"nnz", header.nnz},
                    {"indices_bytes", header.indices_bytes},
                    {"values_bytes", header.values_bytes},
                    {"values_encoding", header.values_encoding}});
  }
  return Dump(list);
}

absl::StatusOr<std::vector<EncodedHeader>> ReadHeaders(std::string_view text) {
  std::vector<EncodedHeader> headers;
  SPARSEAGG_RETURN_IF_ERROR(Parse(text, "headers of an update", [&](const json& list) {
    for (const json& value : list) {
      EncodedHeader& header = headers.emplace_back();
      value.at("name").get_to(header.name);
      value.at("encoding").get_to(header.encoding);
      header.value_type = EnumOf(value.at("value_type"), ValueType::kU64);
      value.at("dense_shape").get_to(header.dense_shape);
      value.at("sparse_dim").get_to(header.sparse_dim);
      header.index_type = EnumOf(value.at("index_type"), IndexType::kI32);
      value.at("nnz").get_to(header.nnz);
      value.at("indices_bytes").get_to(header.indices_bytes);
      value.at("values_bytes").get_to(header.values_bytes);
      header.values_encoding = value.value("values_encoding", "");
    }
  }));
  return headers;
}

std::vector<std::string_view> ResultPieces(std::span<const SparseTensor> tensors,
                                           std::vector<uint64_t>& sizes) {
  sizes.clear();
  for (const SparseTensor& tensor : tensors) {
    const bool without_rows = tensor.nnz() > 0 && tensor.indices.kept().empty();
    sizes.push_back(tensor.nnz() + (without_rows ? kEveryRow : 0));
  }
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const SparseTensor& tensor = tensors[i];
    pieces.emplace_back(reinterpret_cast<const char*>(&sizes[i]), sizeof(uint64_t));
    const HostVector<uint64_t>& rows = tensor.indices.kept();
    pieces.emplace_back(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(uint64_t));
    pieces.emplace_back(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size());
  }
  return pieces;
}

std::vector<std::string_view> ResultPieces(const PublishedResult& result,
                                           std::vector<uint64_t>& sizes) {
  if (result.spec.publish_partial) return {result.partial};
  return ResultPieces(result.tensors, sizes);
}

absl::StatusOr<std::vector<SparseTensor>> ReadResult(std::string_view bytes,
                                                     const RoundSpec& spec) {
  std::vector<SparseTensor> tensors;
  for (const TensorSpec& tensor_spec : spec.tensors) {
    SPARSEAGG_ASSIGN_OR_RETURN(const ReduceSpec reduce, MakeReduceSpec(tensor_spec));
    SparseTensor& tensor = tensors.emplace_back();
    tensor.layout = ResultLayout(reduce);
    uint64_t nnz = 0;
    if (!Take(bytes, &nnz, sizeof(nnz))) return Damaged("result");
    const uint64_t row_bytes = tensor.layout.row_bytes();
    const bool has_every_row = nnz >= kEveryRow;
    if (has_every_row) nnz -= kEveryRow;
    if (has_every_row && (nnz == 0 || nnz != tensor.layout.num_rows)) return Damaged("result");
    const uint64_t entry_bytes = row_bytes + (has_every_row ? 0 : sizeof(uint64_t));
    if (nnz > bytes.size() / entry_bytes) return Damaged("result");
    if (has_every_row) {
      tensor.indices = RowIds::Every(nnz);
    } else {
      tensor.indices.kept().resize(nnz);
      Take(bytes, tensor.indices.kept().data(), nnz * sizeof(uint64_t));
    }
    tensor.values.resize(nnz * row_bytes);
    Take(bytes, tensor.values.data(), tensor.values.size());
  }
  if (!bytes.empty()) return Damaged("result");
  return tensors;
}

}  // namespace sparseagg
