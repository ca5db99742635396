#include "service/rpc/received_update.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/rpc/wire_reader.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

constexpr uint32_t Varint(uint32_t number) { return number << 3; }
constexpr uint32_t Delimited(uint32_t number) { return number << 3 | 2; }

// Calls on_field(tag, content, field) for each field of `message`: `content` is that of a
// length-delimited one, `field` is all of it. False when the bytes or on_field say so.
template <typename OnField>
bool EachField(WireReader message, OnField on_field) {
  while (!message.AtEnd()) {
    const WireReader start = message;
    uint32_t tag = 0;
    WireReader content;
    if (!message.ReadTag(&tag)) return false;
    const bool delimited = tag == Delimited(tag >> 3);
    if (!(delimited ? message.ReadLengthDelimited(&content) : message.SkipField(tag))) return false;
    if (!on_field(tag, content, start.Until(message))) return false;
  }
  return true;
}

// As protobuf does with a field that comes again.
bool Merge(const WireReader& bytes, google::protobuf::MessageLite* message) {
  return message->MergeFromString(bytes.Copy());
}

void Replace(const WireReader& bytes, std::vector<std::string_view>* pieces) {
  pieces->clear();
  bytes.AppendPieces(pieces);
}

bool ReadTensor(const WireReader& bytes, ReceivedUpdate::Tensor* tensor) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader&) {
    switch (tag) {
      case Delimited(v1::Tensor::kHeaderFieldNumber):
        return Merge(content, &tensor->header);
      case Delimited(v1::Tensor::kIndicesFieldNumber):
        Replace(content, &tensor->indices);
        return true;
      case Delimited(v1::Tensor::kValuesFieldNumber):
        Replace(content, &tensor->values);
        return true;
      default:
        return true;
    }
  });
}

// Two bytes can say that there is a tensor, which takes hundreds: they are counted before protobuf
// makes them. `tensors`: those of earlier fields; these are added.
bool HasFewTensors(const WireReader& bytes, uint32_t tensors_field, uint64_t& tensors) {
  return EachField(bytes, [&](uint32_t tag, const WireReader&, const WireReader&) {
    return tag != Delimited(tensors_field) || ++tensors <= kMessageTensorsMax;
  });
}

// The same of a message whose field `spec_field` is a RoundSpec.
bool HasSpecOfFewTensors(const WireReader& bytes, uint32_t spec_field, uint64_t tensors) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader&) {
    return tag != Delimited(spec_field) ||
           HasFewTensors(content, v1::RoundSpec::kTensorsFieldNumber, tensors);
  });
}

bool MergeBegin(const WireReader& bytes, v1::BeginUpdate* begin) {
  auto tensors = static_cast<uint64_t>(begin->tensors_size());
  return HasFewTensors(bytes, v1::BeginUpdate::kTensorsFieldNumber, tensors) && Merge(bytes, begin);
}

bool MergeStart(const WireReader& bytes, v1::ReduceStart* start) {
  const auto tensors = static_cast<uint64_t>(start->spec().tensors_size());
  return HasSpecOfFewTensors(bytes, v1::ReduceStart::kSpecFieldNumber, tensors) &&
         Merge(bytes, start);
}

bool ReadUpdate(const WireReader& bytes, ReceivedUpdate* update) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader&) {
    switch (tag) {
      case Delimited(v1::SubmitUpdateRequest::kHeaderFieldNumber):
        return Merge(content, &update->header);
      case Delimited(v1::SubmitUpdateRequest::kTensorsFieldNumber):
        return update->tensors.size() < kMessageTensorsMax &&
               ReadTensor(content, &update->tensors.emplace_back());
      default:
        return true;
    }
  });
}

// Everything but the data is protobuf's to read.
bool ReadChunk(const WireReader& bytes, v1::UpdateChunk* rest,
               std::vector<std::string_view>* data) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader& field) {
    if (tag != Delimited(v1::UpdateChunk::kDataFieldNumber)) return Merge(field, rest);
    Replace(content, data);
    return true;
  });
}

// The alternative of `body` that is under way, or a new one in its place.
template <typename T, typename Body>
T* Get(Body* body) {
  T* present = std::get_if<T>(body);
  return present != nullptr ? present : &body->template emplace<T>();
}

// A chunk as its parts are found.
struct ChunkParts {
  v1::UpdateChunk rest;
  std::vector<std::string_view> data;
};

ReceivedChunk ToChunk(ChunkParts parts) {
  ReceivedChunk chunk;
  chunk.update_id = std::move(*parts.rest.mutable_update_id());
  chunk.offset = parts.rest.offset();
  if (parts.rest.has_crc32c()) chunk.crc32c = parts.rest.crc32c();
  chunk.data = std::move(parts.data);
  return chunk;
}

// The bodies that StreamUpdatesRequest and ReduceRequest have both, and their field numbers in
// `Message`.
template <typename Message, typename Body>
bool ReadBody(uint32_t tag, const WireReader& content, Body* body) {
  switch (tag) {
    case Delimited(Message::kUpdateFieldNumber):
      return ReadUpdate(content, Get<ReceivedUpdate>(body));
    case Delimited(Message::kBeginFieldNumber):
      return MergeBegin(content, Get<v1::BeginUpdate>(body));
    case Delimited(Message::kChunkFieldNumber): {
      auto* chunk = Get<ChunkParts>(body);
      return ReadChunk(content, &chunk->rest, &chunk->data);
    }
    default:
      return true;
  }
}

template <typename Received, typename Body>
Received ToReceived(Body body) {
  return std::visit(
      [](auto&& part) -> Received {
        if constexpr (std::is_same_v<std::decay_t<decltype(part)>, ChunkParts>) {
          return ToChunk(std::move(part));
        } else {
          return std::move(part);
        }
      },
      std::move(body));
}

absl::Status Malformed(const char* name) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, "MALFORMED_MESSAGE",
      absl::StrCat("the bytes are not a ", name, " of sparseagg.v1, or have more than ",
                   kMessageTensorsMax, " tensors; was it made from its .proto?"));
}

}  // namespace

absl::StatusOr<ReceivedUpdate> ReadSubmitUpdate(ByteChain bytes) {
  ReceivedUpdate update;
  if (!ReadUpdate(WireReader(bytes), &update)) return Malformed("SubmitUpdateRequest");
  return update;
}

absl::StatusOr<ReceivedStreamMessage> ReadStreamUpdates(ByteChain bytes) {
  std::variant<std::monostate, ReceivedUpdate, v1::BeginUpdate, ChunkParts> body;
  v1::StreamUpdatesRequest rest;
  const bool ok = EachField(WireReader(bytes),
                            [&](uint32_t tag, const WireReader& content, const WireReader& field) {
                              if (tag != Varint(v1::StreamUpdatesRequest::kTakesMoreFieldNumber)) {
                                return ReadBody<v1::StreamUpdatesRequest>(tag, content, &body);
                              }
                              return Merge(field, &rest);
                            });
  if (!ok) return Malformed("StreamUpdatesRequest");
  return ReceivedStreamMessage{
      .body = ToReceived<decltype(ReceivedStreamMessage::body)>(std::move(body)),
      .takes_more = rest.takes_more()};
}

void ShortenUpdateId(ReceivedStreamMessage& message) {
  constexpr size_t kKept = 1024;
  std::string* id = nullptr;
  if (auto* update = std::get_if<ReceivedUpdate>(&message.body)) {
    id = update->header.mutable_update_id();
  } else if (auto* begin = std::get_if<v1::BeginUpdate>(&message.body)) {
    id = begin->mutable_header()->mutable_update_id();
  } else if (auto* chunk = std::get_if<ReceivedChunk>(&message.body)) {
    id = &chunk->update_id;
  }
  if (id != nullptr && id->size() > kKept) *id = id->substr(0, kKept);
}

absl::StatusOr<ReceivedReduceMessage> ReadReduce(ByteChain bytes) {
  std::variant<std::monostate, v1::ReduceStart, ReceivedUpdate, v1::BeginUpdate, ChunkParts> body;
  const bool ok = EachField(
      WireReader(bytes), [&](uint32_t tag, const WireReader& content, const WireReader& /*field*/) {
        if (tag != Delimited(v1::ReduceRequest::kStartFieldNumber)) {
          return ReadBody<v1::ReduceRequest>(tag, content, &body);
        }
        return MergeStart(content, Get<v1::ReduceStart>(&body));
      });
  if (!ok) return Malformed("ReduceRequest");
  return ToReceived<ReceivedReduceMessage>(std::move(body));
}

absl::StatusOr<v1::CreateRoundRequest> ReadCreateRound(ByteChain bytes) {
  const WireReader reader(bytes);
  v1::CreateRoundRequest request;
  const bool ok = HasSpecOfFewTensors(reader, v1::CreateRoundRequest::kSpecFieldNumber, 0) &&
                  Merge(reader, &request);
  if (!ok) return Malformed("CreateRoundRequest");
  return request;
}

absl::StatusOr<v1::GetAggregateRequest> ReadGetAggregate(ByteChain bytes) {
  const WireReader reader(bytes);
  v1::GetAggregateRequest request;
  uint64_t tensors = 0;
  uint64_t selections = 0;
  const bool ok =
      HasFewTensors(reader, v1::GetAggregateRequest::kTensorsFieldNumber, tensors) &&
      HasFewTensors(reader, v1::GetAggregateRequest::kSelectionsFieldNumber, selections) &&
      Merge(reader, &request);
  if (!ok) return Malformed("GetAggregateRequest");
  return request;
}

}  // namespace sparseagg
