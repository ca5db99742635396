#include "tests/support/protobuf_comparison.h"

#include <string_view>
#include <vector>

#include "proto/limits.h"
#include "service/rpc/wire/received_update.h"

namespace sparseagg::testing {
namespace {

std::vector<std::string_view> Cut(std::string_view bytes, std::span<const size_t> cuts) {
  std::vector<std::string_view> pieces;
  size_t start = 0;
  for (const size_t cut : cuts) {
    pieces.push_back(bytes.substr(start, cut - start));
    start = cut;
  }
  pieces.push_back(bytes.substr(start));
  return pieces;
}

template <typename Message>
v1::SubmitUpdateRequest ToProto(const ReceivedUpdate& update) {
  v1::SubmitUpdateRequest proto;
  *proto.mutable_header() = update.header;
  for (const ReceivedUpdate::Tensor& tensor : update.tensors) {
    v1::Tensor& added = *proto.add_tensors();
    *added.mutable_header() = tensor.header;
    added.set_indices(Joined(tensor.indices));
    added.set_values(Joined(tensor.values));
  }
  return proto;
}

v1::UpdateChunk ToProto(const ReceivedChunk& chunk) {
  v1::UpdateChunk proto;
  proto.set_update_id(chunk.update_id);
  proto.set_offset(chunk.offset);
  if (chunk.crc32c.has_value()) proto.set_crc32c(*chunk.crc32c);
  proto.set_data(Joined(chunk.data));
  return proto;
}

template <typename Message, typename Body>
Message BodyToProto(const Body& message) {
  Message proto;
  if constexpr (std::is_same_v<Message, v1::ReduceRequest>) {
    if (const auto* start = std::get_if<v1::ReduceStart>(&message)) *proto.mutable_start() = *start;
  }
  if (const auto* update = std::get_if<ReceivedUpdate>(&message)) {
    *proto.mutable_update() = ToProto<v1::SubmitUpdateRequest>(*update);
  } else if (const auto* begin = std::get_if<v1::BeginUpdate>(&message)) {
    *proto.mutable_begin() = *begin;
  } else if (const auto* chunk = std::get_if<ReceivedChunk>(&message)) {
    *proto.mutable_chunk() = ToProto(*chunk);
  }
  return proto;
}

template <typename Message>
Message ToProto(const ReceivedStreamMessage& message) {
  auto proto = BodyToProto<Message>(message.body);
  if (const auto* batch = std::get_if<ReceivedBatch>(&message.body)) {
    proto.mutable_batch();
    for (const ReceivedUpdate& update : *batch) {
      *proto.mutable_batch()->add_updates() = ToProto<v1::SubmitUpdateRequest>(update);
    }
  }
  proto.set_takes_more(message.takes_more);
  return proto;
}

template <typename Message>
Message ToProto(const ReceivedUploadChunk& message) {
  Message proto;
  *proto.mutable_begin() = message.begin;
  if (message.chunk.has_value()) *proto.mutable_chunk() = ToProto(*message.chunk);
  return proto;
}

template <typename Message>
Message ToProto(const ReceivedReduceMessage& message) {
  return BodyToProto<Message>(message);
}

// An absent header equals an empty one, and unknown fields are ignored.
void Normalise(v1::SubmitUpdateRequest& update) {
  update.mutable_header();
  for (v1::Tensor& tensor : *update.mutable_tensors()) tensor.mutable_header();
}
void Normalise(v1::UploadChunkRequest& message) { message.mutable_begin(); }
template <typename Message>
void Normalise(Message& message) {
  if (message.has_update()) Normalise(*message.mutable_update());
  if constexpr (std::is_same_v<Message, v1::StreamUpdatesRequest>) {
    if (!message.has_batch()) return;
    for (auto& update : *message.mutable_batch()->mutable_updates()) Normalise(update);
  }
}

template <typename Message>
bool HasTooMany(const Message& /*message*/) {
  return false;
}
bool HasTooMany(const v1::StreamUpdatesRequest& message) {
  return static_cast<uint64_t>(message.batch().updates_size()) > kBatchUpdatesMax;
}

template <typename Message, typename Received>
std::string Difference(const std::string& bytes, const absl::StatusOr<Received>& received) {
  Message expected;
  const bool is_message = expected.ParseFromString(bytes) && !HasTooMany(expected);
  if (is_message != received.ok()) {
    return is_message ? "protobuf accepts it: " + expected.ShortDebugString() : "protobuf refuses";
  }
  if (!is_message) return "";
  Message read = ToProto<Message>(*received);
  Normalise(expected);
  Normalise(read);
  expected.DiscardUnknownFields();
  read.DiscardUnknownFields();
  // As bytes: MessageDifferencer finds that a NaN differs from itself.
  if (expected.SerializeAsString() == read.SerializeAsString()) return "";
  return "protobuf reads " + expected.ShortDebugString() + ", not " + read.ShortDebugString();
}

}  // namespace

std::string Joined(std::span<const std::string_view> pieces) {
  std::string whole;
  for (const std::string_view piece : pieces) whole.append(piece);
  return whole;
}

std::string DifferenceFromProtobuf(const std::string& bytes, std::span<const size_t> cuts) {
  const std::vector<std::string_view> pieces = Cut(bytes, cuts);
  std::string differences;
  const auto add = [&](const char* name, const std::string& difference) {
    if (!difference.empty()) differences += std::string(name) + ": " + difference + "; ";
  };
  add("SubmitUpdateRequest", Difference<v1::SubmitUpdateRequest>(bytes, ReadSubmitUpdate(pieces)));
  add("StreamUpdatesRequest",
      Difference<v1::StreamUpdatesRequest>(bytes, ReadStreamUpdates(pieces)));
  add("UploadChunkRequest", Difference<v1::UploadChunkRequest>(bytes, ReadUploadChunk(pieces)));
  add("ReduceRequest", Difference<v1::ReduceRequest>(bytes, ReadReduce(pieces)));
  return differences;
}

}  // namespace sparseagg::testing
