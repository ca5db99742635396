#include "service/rpc/wire/received_update.h"

#include <google/protobuf/io/coded_stream.h>

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/error_details.h"
#include "proto/limits.h"
#include "service/rpc/wire/known_fields.h"
#include "service/rpc/wire/wire_reader.h"

namespace sparseagg {
namespace {

constexpr uint32_t Varint(uint32_t number) { return number << 3 | kWireVarint; }
constexpr uint32_t Delimited(uint32_t number) { return number << 3 | kWireDelimited; }

// Merges the field into `message`, as protobuf does with a repeated occurrence. `elements`: the
// list elements so far.
bool Merge(const WireReader& bytes, google::protobuf::Message* message, uint64_t elements = 0) {
  std::string known;
  known.reserve(bytes.size());
  return AppendKnownFields(bytes, *message->GetDescriptor(), elements, known) &&
         message->MergeFromString(known);
}

// The same for a header, which has no messages inside. Each of many small updates has one, and its
// unknown fields would be kept until the update is counted.
bool MergeHeader(const WireReader& bytes, google::protobuf::Message* header) {
  constexpr uint64_t kSmall = 256;
  const std::string_view piece = bytes.FirstPiece();
  if (piece.size() != bytes.size() || piece.size() > kSmall) return Merge(bytes, header);
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(piece.data()),
                                                static_cast<int>(piece.size()));
  stream.SetRecursionLimit(bytes.depth_left());
  if (!header->MergeFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) return false;
  const google::protobuf::Reflection& fields = *header->GetReflection();
  if (!fields.GetUnknownFields(*header).empty()) fields.MutableUnknownFields(header)->Clear();
  return true;
}

void Replace(const WireReader& bytes, std::vector<std::string_view>* pieces) {
  pieces->clear();
  bytes.AppendPieces(pieces);
}

bool ReadTensor(const WireReader& bytes, ReceivedUpdate::Tensor* tensor) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader&) {
    switch (tag) {
      case Delimited(v1::Tensor::kHeaderFieldNumber):
        // Repeated occurrences of a header are merged, so their shapes add up.
        return MergeHeader(content, &tensor->header) &&
               static_cast<uint64_t>(tensor->header.dense_shape_size()) <= kListedNumbersMax;
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

bool MergeBegin(const WireReader& bytes, v1::BeginUpdate* begin) {
  return Merge(bytes, begin, static_cast<uint64_t>(begin->tensors_size()));
}

bool MergeStart(const WireReader& bytes, v1::ReduceStart* start) {
  return Merge(bytes, start, static_cast<uint64_t>(start->spec().tensors_size()));
}

// `tensors`: the number in the message so far.
bool ReadUpdate(const WireReader& bytes, ReceivedUpdate* update, uint64_t& tensors) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader&) {
    switch (tag) {
      case Delimited(v1::SubmitUpdateRequest::kHeaderFieldNumber):
        return MergeHeader(content, &update->header);
      case Delimited(v1::SubmitUpdateRequest::kTensorsFieldNumber):
        return ++tensors <= kRoundTensorsMax &&
               ReadTensor(content, &update->tensors.emplace_back());
      default:
        return true;
    }
  });
}

// A batch while it is parsed: any number of fields may add to it.
struct BatchParts {
  ReceivedBatch updates;
  uint64_t tensors = 0;  // of all updates
};

bool ReadBatch(const WireReader& bytes, BatchParts* batch) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader&) {
    return tag != Delimited(v1::UpdateBatch::kUpdatesFieldNumber) ||
           (batch->updates.size() < kBatchUpdatesMax &&
            ReadUpdate(content, &batch->updates.emplace_back(), batch->tensors));
  });
}

// Protobuf parses everything but the data.
bool ReadChunk(const WireReader& bytes, v1::UpdateChunk* rest,
               std::vector<std::string_view>* data) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader& field) {
    if (tag != Delimited(v1::UpdateChunk::kDataFieldNumber)) return Merge(field, rest);
    Replace(content, data);
    return true;
  });
}

// The alternative of `body` that is being parsed, or a new one in its place.
template <typename T, typename Body>
T* Get(Body* body) {
  T* present = std::get_if<T>(body);
  return present != nullptr ? present : &body->template emplace<T>();
}

// A chunk while it is parsed.
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

// The bodies that both StreamUpdatesRequest and ReduceRequest have, and their field numbers in
// `Message`.
template <typename Message, typename Body>
bool ReadBody(uint32_t tag, const WireReader& content, Body* body) {
  switch (tag) {
    case Delimited(Message::kUpdateFieldNumber): {
      auto* update = Get<ReceivedUpdate>(body);
      uint64_t tensors = update->tensors.size();
      return ReadUpdate(content, update, tensors);
    }
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
      [](auto& part) -> Received {
        using Part = std::decay_t<decltype(part)>;
        if constexpr (std::is_same_v<Part, ChunkParts>) {
          return ToChunk(std::move(part));
        } else if constexpr (std::is_same_v<Part, BatchParts>) {
          return std::move(part.updates);
        } else {
          return std::move(part);
        }
      },
      body);
}

absl::Status Malformed(const std::string& name) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, "MALFORMED_MESSAGE",
      absl::StrCat("the message is not a valid ", name, " of sparseagg.v1, or have more than ",
                   kRoundTensorsMax, " tensors, or ", kBatchUpdatesMax, " updates, or ",
                   kListedNumbersMax, " dimensions in one tensor; was it made from its .proto?"));
}

}  // namespace

absl::StatusOr<ReceivedUpdate> ReadSubmitUpdate(ByteChain bytes) {
  ReceivedUpdate update;
  uint64_t tensors = 0;
  if (!ReadUpdate(WireReader(bytes), &update, tensors)) return Malformed("SubmitUpdateRequest");
  return update;
}

absl::StatusOr<ReceivedStreamMessage> ReadStreamUpdates(ByteChain bytes) {
  using Message = v1::StreamUpdatesRequest;
  std::variant<std::monostate, ReceivedUpdate, v1::BeginUpdate, ChunkParts, BatchParts> body;
  Message rest;
  const bool ok = EachField(WireReader(bytes),
                            [&](uint32_t tag, const WireReader& content, const WireReader& field) {
                              switch (tag) {
                                case Delimited(Message::kBatchFieldNumber):
                                  return ReadBatch(content, Get<BatchParts>(&body));
                                case Varint(Message::kTakesMoreFieldNumber):
                                  return Merge(field, &rest);
                                default:
                                  return ReadBody<Message>(tag, content, &body);
                              }
                            });
  if (!ok) return Malformed("StreamUpdatesRequest");
  return ReceivedStreamMessage{
      .body = ToReceived<decltype(ReceivedStreamMessage::body)>(std::move(body)),
      .takes_more = rest.takes_more()};
}

absl::StatusOr<ReceivedUploadChunk> ReadUploadChunk(ByteChain bytes) {
  using Message = v1::UploadChunkRequest;
  ReceivedUploadChunk received;
  std::optional<ChunkParts> chunk;
  const bool ok = EachField(
      WireReader(bytes), [&](uint32_t tag, const WireReader& content, const WireReader& /*field*/) {
        switch (tag) {
          case Delimited(Message::kBeginFieldNumber):
            return MergeBegin(content, &received.begin);
          case Delimited(Message::kChunkFieldNumber):
            if (!chunk.has_value()) chunk.emplace();
            return ReadChunk(content, &chunk->rest, &chunk->data);
          default:
            return true;
        }
      });
  if (!ok) return Malformed("UploadChunkRequest");
  if (chunk.has_value()) received.chunk = ToChunk(*std::move(chunk));
  return received;
}

uint64_t BytesHeld(const ReceivedUpdate& update) {
  uint64_t bytes = update.tensors.capacity() * sizeof(ReceivedUpdate::Tensor);
  for (const ReceivedUpdate::Tensor& tensor : update.tensors) {
    bytes += tensor.header.dense_shape_size() * sizeof(int64_t);
    bytes += (tensor.indices.capacity() + tensor.values.capacity()) * sizeof(std::string_view);
  }
  return bytes;
}

void ShortenUpdateIds(ReceivedStreamMessage& message) {
  const auto shorten = [](std::string& id) {
    constexpr size_t kKept = 1024;
    if (id.size() > kKept) id.resize(EndOfUtf8(id, kKept));
  };
  if (auto* update = std::get_if<ReceivedUpdate>(&message.body)) {
    shorten(*update->header.mutable_update_id());
  } else if (auto* begin = std::get_if<v1::BeginUpdate>(&message.body)) {
    shorten(*begin->mutable_header()->mutable_update_id());
  } else if (auto* chunk = std::get_if<ReceivedChunk>(&message.body)) {
    shorten(chunk->update_id);
  } else if (auto* batch = std::get_if<ReceivedBatch>(&message.body)) {
    for (ReceivedUpdate& update : *batch) shorten(*update.header.mutable_update_id());
  }
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

absl::Status ReadRequest(ByteChain bytes, uint64_t bytes_max, google::protobuf::Message* request) {
  const WireReader reader(bytes);
  const std::string& name = request->GetDescriptor()->name();
  if (reader.size() > bytes_max) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "MALFORMED_MESSAGE",
        absl::StrCat("a ", name, " of ", reader.size(), " bytes exceeds the limit of ", bytes_max));
  }
  return Merge(reader, request) ? absl::OkStatus() : Malformed(name);
}

}  // namespace sparseagg
