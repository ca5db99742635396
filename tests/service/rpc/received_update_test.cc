#include "service/rpc/wire/received_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/rpc/wire/known_fields.h"
#include "service/rpc/wire/update_proto.h"
#include "tests/service/rpc/messages.h"
#include "tests/support/effort.h"
#include "tests/support/protobuf_comparison.h"

namespace sparseagg {
namespace {

using testing::DifferenceFromProtobuf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Request>
absl::StatusOr<Request> Read(ByteChain bytes) {
  Request request;
  SPARSEAGG_RETURN_IF_ERROR(ReadRequest(bytes, uint64_t{1} << 30, &request));
  return request;
}

// A field of this number, as it is written.
std::string Delimited(int field, const std::string& content) {
  std::string bytes(1, static_cast<char>(field << 3 | 2));
  size_t left = content.size();
  for (; left >= 0x80; left >>= 7) bytes.push_back(static_cast<char>(left | 0x80));
  bytes.push_back(static_cast<char>(left));
  return bytes + content;
}

v1::StreamUpdatesRequest SomeUpdate() {
  v1::StreamUpdatesRequest message;
  *message.mutable_update() =
      testing::VectorUpdate("rounds/a", "c", testing::VectorEntries("t", 9, {1, 5}, {0.5F, 2.0F}));
  message.mutable_update()->mutable_header()->set_weight(3);
  return message;
}

v1::StreamUpdatesRequest SomeChunk() {
  v1::StreamUpdatesRequest message;
  message.mutable_chunk()->set_update_id("u");
  message.mutable_chunk()->set_offset(70'000);
  message.mutable_chunk()->set_data("0123456789");
  message.mutable_chunk()->set_crc32c(17);
  return message;
}

TEST(ReceivedUpdateTest, LeavesThePayloadWhereItIs) {
  const std::string bytes = SomeChunk().SerializeAsString();
  const size_t middle = bytes.find("456");
  const std::vector<std::string_view> pieces = {std::string_view(bytes).substr(0, middle),
                                                std::string_view(bytes).substr(middle)};
  const auto message = ReadStreamUpdates(pieces);
  ASSERT_TRUE(message.ok()) << message.status();
  const auto& chunk = std::get<ReceivedChunk>(message->body);
  EXPECT_EQ(chunk.update_id, "u");
  EXPECT_EQ(chunk.offset, 70'000);
  EXPECT_EQ(chunk.crc32c, 17);
  ASSERT_THAT(chunk.data, ElementsAre("0123", "456789"));
  EXPECT_EQ(chunk.data[1].data(), bytes.data() + middle);
}

TEST(ReceivedUpdateTest, TakesTheLengthsOfATensorThatCameWholeFromItsBytes) {
  const std::string bytes = SomeUpdate().update().SerializeAsString();
  const std::vector<std::string_view> pieces = {bytes};
  const auto update = ReadSubmitUpdate(pieces);
  ASSERT_TRUE(update.ok()) << update.status();
  const auto tensors = EncodedTensorsOf(*update);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 1);
  EXPECT_EQ(tensors->front().header.name, "t");
  EXPECT_EQ(tensors->front().header.indices_bytes, 16);
  EXPECT_EQ(tensors->front().header.values_bytes, 8);
  EXPECT_EQ(testing::Joined(tensors->front().values), testing::Bytes<float>({0.5F, 2.0F}));
}

TEST(ReceivedUpdateTest, TakesAWeightOfMinusZeroAsZero) {
  v1::UpdateHeader header;
  EXPECT_EQ(FromProto(header).weight, 1.0f);
  header.set_weight(-0.0f);
  EXPECT_EQ(FromProto(header).weight, 0.0f);
  EXPECT_FALSE(std::signbit(FromProto(header).weight));
}

TEST(ReceivedUpdateTest, RefusesBytesThatAreNoMessage) {
  const std::vector<std::string_view> pieces = {"\x0a\x7f"};
  const auto message = ReadStreamUpdates(pieces);
  EXPECT_EQ(ErrorReason(message.status()), "MALFORMED_MESSAGE");
  EXPECT_EQ(ErrorReason(ReadSubmitUpdate(pieces).status()), "MALFORMED_MESSAGE");
  EXPECT_EQ(ErrorReason(Read<v1::CreateRoundRequest>(pieces).status()), "MALFORMED_MESSAGE");
  EXPECT_EQ(ErrorReason(Read<v1::GetAggregateRequest>(pieces).status()), "MALFORMED_MESSAGE");
}

// A tensor takes two bytes on the wire.
TEST(ReceivedUpdateTest, RefusesMoreTensorsThanAnyRoundHas) {
  const auto reason = [](auto message, auto read) {
    const std::string bytes = message.SerializeAsString();
    const std::vector<std::string_view> pieces = {bytes};
    return ErrorReason(read(pieces).status());
  };
  v1::SubmitUpdateRequest update;
  v1::StreamUpdatesRequest begin;
  v1::ReduceRequest start;
  v1::CreateRoundRequest round;
  v1::GetAggregateRequest by_name;
  v1::GetAggregateRequest selections;
  const auto add_tensor = [&] {
    update.add_tensors();
    begin.mutable_begin()->add_tensors();
    start.mutable_start()->mutable_spec()->add_tensors();
    round.mutable_spec()->add_tensors();
    by_name.add_tensors();
    selections.add_selections();
  };
  const auto reasons = [&] {
    return std::vector<std::string>{reason(update, ReadSubmitUpdate),
                                    reason(begin, ReadStreamUpdates),
                                    reason(start, ReadReduce),
                                    reason(round, Read<v1::CreateRoundRequest>),
                                    reason(by_name, Read<v1::GetAggregateRequest>),
                                    reason(selections, Read<v1::GetAggregateRequest>)};
  };
  for (uint64_t t = 0; t < kRoundTensorsMax; ++t) add_tensor();
  EXPECT_THAT(reasons(), Each(""));
  add_tensor();
  EXPECT_THAT(reasons(), Each("MALFORMED_MESSAGE"));
}

TEST(ReceivedUpdateTest, ReadsListsOfTensorsAsTheyWereWritten) {
  v1::CreateRoundRequest round;
  round.set_round_id("r");
  round.set_request_id("once");
  round.mutable_spec()->add_tensors()->set_name("t");
  const std::string of_round = round.SerializeAsString();
  const auto read_round = Read<v1::CreateRoundRequest>(std::vector<std::string_view>{of_round});
  ASSERT_TRUE(read_round.ok()) << read_round.status();
  EXPECT_EQ(read_round->SerializeAsString(), of_round);

  v1::GetAggregateRequest get;
  get.set_name("rounds/r");
  get.add_tensors("t");
  get.add_selections()->set_indices("12345678");
  const std::string of_get = get.SerializeAsString();
  const std::string_view whole = of_get;
  const auto read_get = Read<v1::GetAggregateRequest>(
      std::vector<std::string_view>{whole.substr(0, 9), whole.substr(9)});
  ASSERT_TRUE(read_get.ok()) << read_get.status();
  EXPECT_EQ(read_get->SerializeAsString(), of_get);
}

TEST(ReceivedUpdateTest, CountsTheTensorsOfABatchTogether) {
  v1::StreamUpdatesRequest message;
  const auto reason = [&] {
    const std::string bytes = message.SerializeAsString();
    return ErrorReason(ReadStreamUpdates(std::vector<std::string_view>{bytes}).status());
  };
  for (int u = 0; u < 2; ++u) {
    v1::SubmitUpdateRequest& update = *message.mutable_batch()->add_updates();
    for (uint64_t t = 0; t < kRoundTensorsMax / 2; ++t) update.add_tensors();
  }
  EXPECT_EQ(reason(), "");
  message.mutable_batch()->add_updates()->add_tensors();
  EXPECT_EQ(reason(), "MALFORMED_MESSAGE");
}

// A short header in one piece is parsed on another path than one that is cut or long.
TEST(ReceivedUpdateTest, LeavesOutWhatItDoesNotKnowOfAHeader) {
  for (const size_t unknown_bytes : {10, 1000}) {
    v1::SubmitUpdateRequest message;
    message.mutable_header()->set_round("rounds/a");
    const std::string header =
        message.header().SerializeAsString() + Delimited(15, std::string(unknown_bytes, 'x'));
    const std::string bytes = Delimited(v1::SubmitUpdateRequest::kHeaderFieldNumber, header);
    const auto update = ReadSubmitUpdate(std::vector<std::string_view>{bytes});
    ASSERT_TRUE(update.ok()) << update.status();
    EXPECT_EQ(update->header.round(), "rounds/a");
    EXPECT_EQ(update->header.SerializeAsString(), message.header().SerializeAsString());
  }
}

// Repeated occurrences of a field are merged, so they are counted together.
TEST(ReceivedUpdateTest, CountsTheTensorsOfFieldsThatComeAgain) {
  v1::StreamUpdatesRequest half;
  v1::RoundSpec half_spec;
  for (uint64_t t = 0; t <= kRoundTensorsMax / 2; ++t) {
    half.mutable_begin()->add_tensors();
    half_spec.add_tensors();
  }
  const std::string once = half.SerializeAsString();
  const std::string twice = once + once;
  EXPECT_TRUE(ReadStreamUpdates(std::vector<std::string_view>{once}).ok());
  EXPECT_EQ(ErrorReason(ReadStreamUpdates(std::vector<std::string_view>{twice}).status()),
            "MALFORMED_MESSAGE");

  // A start with two specs, which no message object writes.
  v1::ReduceStart start;
  *start.mutable_spec() = half_spec;
  const std::string content = start.SerializeAsString();
  const std::string one = Delimited(v1::ReduceRequest::kStartFieldNumber, content);
  const std::string two = Delimited(v1::ReduceRequest::kStartFieldNumber, content + content);
  EXPECT_TRUE(ReadReduce(std::vector<std::string_view>{one}).ok());
  EXPECT_EQ(ErrorReason(ReadReduce(std::vector<std::string_view>{two}).status()),
            "MALFORMED_MESSAGE");
}

// A dimension takes one byte on the wire and eight in protobuf's memory. Dimensions in repeated
// occurrences of a header are counted, too.
TEST(ReceivedUpdateTest, RefusesMoreDimensionsThanAnyTensorHas) {
  using Header = v1::TensorHeader;
  const auto packed = [](int field, uint64_t dimensions) {
    return Delimited(field, std::string(dimensions, '\x01'));
  };
  const auto one_by_one = [](int field, uint64_t dimensions) {
    std::string shape;
    while (dimensions-- > 0) shape += {static_cast<char>(field << 3), '\x01'};
    return shape;
  };
  const auto in_update = [](const std::string& headers) {
    return Delimited(v1::SubmitUpdateRequest::kTensorsFieldNumber, headers);
  };
  const auto reason = [](auto read, const std::string& bytes) {
    return ErrorReason(read(std::vector<std::string_view>{bytes}).status());
  };
  const auto reasons = [&](auto list, uint64_t dimensions) {
    const std::string header = list(Header::kDenseShapeFieldNumber, dimensions);
    const std::string tensor = Delimited(v1::BeginUpdate::kTensorsFieldNumber, header);
    const std::string spec = Delimited(v1::RoundSpec::kTensorsFieldNumber,
                                       list(v1::TensorSpec::kDenseShapeFieldNumber, dimensions));
    return std::vector<std::string>{
        reason(ReadSubmitUpdate, in_update(Delimited(v1::Tensor::kHeaderFieldNumber, header))),
        reason(ReadStreamUpdates, Delimited(v1::StreamUpdatesRequest::kBeginFieldNumber, tensor)),
        reason(Read<v1::CreateRoundRequest>,
               Delimited(v1::CreateRoundRequest::kSpecFieldNumber, spec))};
  };
  EXPECT_THAT(reasons(packed, kListedNumbersMax), Each(""));
  EXPECT_THAT(reasons(one_by_one, kListedNumbersMax), Each(""));
  EXPECT_THAT(reasons(packed, kListedNumbersMax + 1), Each("MALFORMED_MESSAGE"));
  EXPECT_THAT(reasons(one_by_one, kListedNumbersMax + 1), Each("MALFORMED_MESSAGE"));

  const std::string half = Delimited(v1::Tensor::kHeaderFieldNumber,
                                     packed(Header::kDenseShapeFieldNumber, kListedNumbersMax / 2));
  EXPECT_EQ(reason(ReadSubmitUpdate, in_update(half + half)), "");
  EXPECT_EQ(reason(ReadSubmitUpdate, in_update(half + half + half)), "MALFORMED_MESSAGE");
}

// A stream counts waiting messages by this size: a message of 131 KB may take 11 MB.
TEST(ReceivedUpdateTest, KnowsWhatTensorsTakeBesideTheirBytes) {
  v1::SubmitUpdateRequest message;
  for (int i = 0; i < 1000; ++i) message.add_tensors();
  const std::string bytes = message.SerializeAsString();
  const auto update = ReadSubmitUpdate(std::vector<std::string_view>{bytes});
  ASSERT_TRUE(update.ok()) << update.status();
  EXPECT_GE(BytesHeld(*update), 1000 * sizeof(ReceivedUpdate::Tensor));
}

// Protobuf would keep them, in memory of up to a hundred times their bytes.
TEST(ReceivedUpdateTest, LeavesOutWhatTheProtoDoesNotHave) {
  v1::CreateRoundRequest known;
  known.set_round_id("r");
  known.mutable_spec()->add_tensors()->set_name("t");
  known.mutable_spec()->mutable_policy()->mutable_grace()->set_seconds(7);
  const std::string number = "\x78\x01";                  // field 15, a varint
  const std::string text = "\x7a\x01x";                   // field 15, a string
  const std::string group = "\x7b\x78\x01\x7c";           // field 15, a group
  const std::string other_type = "\x0d\x01\x02\x03\x04";  // field 1 of four bytes
  for (const std::string& unknown : {number, text, group, other_type}) {
    v1::CreateRoundRequest with = known;
    with.mutable_spec()->MergeFromString(unknown);
    with.mutable_spec()->mutable_tensors(0)->MergeFromString(unknown);
    with.mutable_spec()->mutable_policy()->mutable_grace()->MergeFromString(unknown);
    const std::string bytes = absl::StrCat(unknown, with.SerializeAsString(), unknown);
    ASSERT_GE(bytes.size(), known.ByteSizeLong() + 5 * unknown.size());
    const auto read = Read<v1::CreateRoundRequest>(std::vector<std::string_view>{bytes});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->SerializeAsString(), known.SerializeAsString());
  }
  v1::SubmitUpdateRequest update = SomeUpdate().update();
  const std::string before = update.header().SerializeAsString();
  update.mutable_header()->MergeFromString(group);
  const std::string bytes = update.SerializeAsString();
  const auto read = ReadSubmitUpdate(std::vector<std::string_view>{bytes});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->header.SerializeAsString(), before);
}

TEST(ReceivedUpdateTest, RefusesRequestsLargerThanTheyCanBe) {
  v1::WaitRoundRequest wait;
  wait.set_name(std::string(100, 'r'));
  const std::string bytes = wait.SerializeAsString();
  const std::vector<std::string_view> pieces = {bytes};
  v1::WaitRoundRequest read;
  EXPECT_TRUE(ReadRequest(pieces, bytes.size(), &read).ok());
  EXPECT_EQ(read.name(), wait.name());
  const absl::Status refused = ReadRequest(pieces, bytes.size() - 1, &read);
  EXPECT_EQ(ErrorReason(refused), "MALFORMED_MESSAGE");
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("a WaitRoundRequest of 102 bytes exceeds the limit of 101"));
}

TEST(ReceivedUpdateTest, CutsIdsAtACharactersBorder) {
  v1::StreamUpdatesRequest chunk;
  chunk.mutable_chunk()->set_update_id(std::string(1023, 'a') + "\xc3\xa9");  // an e with an accent
  const std::string bytes = chunk.SerializeAsString();
  auto message = ReadStreamUpdates(std::vector<std::string_view>{bytes});
  ASSERT_TRUE(message.ok()) << message.status();
  ShortenUpdateIds(*message);
  EXPECT_EQ(std::get<ReceivedChunk>(message->body).update_id, std::string(1023, 'a'));
}

TEST(ReceivedUpdateTest, CutsIdsThatNoUpdateHas) {
  const auto id_after = [](auto fill) {
    v1::StreamUpdatesRequest message;
    fill(message, std::string(5000, 'a'));
    const std::string bytes = message.SerializeAsString();
    ReceivedStreamMessage read = ReadStreamUpdates(std::vector<std::string_view>{bytes}).value();
    ShortenUpdateIds(read);
    if (auto* update = std::get_if<ReceivedUpdate>(&read.body)) return update->header.update_id();
    if (auto* begin = std::get_if<v1::BeginUpdate>(&read.body)) return begin->header().update_id();
    if (auto* batch = std::get_if<ReceivedBatch>(&read.body)) {
      return batch->back().header.update_id();
    }
    return std::get<ReceivedChunk>(read.body).update_id;
  };
  const std::string cut(1024, 'a');
  EXPECT_EQ(id_after([](auto& message, const std::string& id) {
              message.mutable_update()->mutable_header()->set_update_id(id);
            }),
            cut);
  EXPECT_EQ(id_after([](auto& message, const std::string& id) {
              message.mutable_batch()->add_updates();
              message.mutable_batch()->add_updates()->mutable_header()->set_update_id(id);
            }),
            cut);
  EXPECT_EQ(id_after([](auto& message, const std::string& id) {
              message.mutable_begin()->mutable_header()->set_update_id(id);
            }),
            cut);
  EXPECT_EQ(id_after([](auto& message, const std::string& id) {
              message.mutable_chunk()->set_update_id(id);
            }),
            cut);
}

// Edge cases, one at a time.
TEST(ReceivedUpdateTest, ReadsCornersOfTheWireFormatAsProtobufDoes) {
  const std::string update = SomeUpdate().SerializeAsString();
  const std::string chunk = SomeChunk().SerializeAsString();
  const std::vector<std::string> messages = {
      "",
      update,
      chunk,
      update + update,          // the same body again: merged
      update + chunk + update,  // another body between: begun anew
      chunk + chunk,
      chunk + std::string("\x1a\x02\x1a\x00", 4),          // data replaced by nothing
      std::string("\x18\x05", 2),                          // a body of the wrong wire type
      std::string("\x00", 1),                              // tag 0
      std::string("\x02\x00", 2),                          // field 0
      std::string("\x0c", 1),                              // a group ends that did not begin
      std::string("\x23\x24", 2),                          // an unknown group
      std::string("\x23\x2c", 2),                          // that ends as another
      std::string("\x23", 1),                              // that does not end
      std::string("\x1a\x80\x80\x80\x80\x00", 6),          // a length in five bytes
      std::string("\x1a\x80\x80\x80\x80\x80\x00", 7),      // in six
      std::string("\x1a\xff\xff\xff\xff\x0f", 6),          // a length beyond 31 bits
      std::string("\x9a\x80\x80\x80\x80\x80\x00\x00", 8),  // a tag in six bytes
      std::string("\x9a\x80\x80\x80\x10\x00", 6),          // a tag of more than 32 bits
      std::string("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),  // the longest varint
      std::string("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12),
      std::string("\x20\x01\x20\x00", 4),  // the last one holds
      chunk + std::string("\x20\x80\x80\x01", 4),
      std::string("\x22\x01\x01", 3),          // of the wrong wire type
      std::string("\x27", 1),                  // wire type 7
      std::string("\x1a\x03\x0a\x01\xff", 5),  // an update_id that is no UTF-8
      std::string(99, '\x23') + std::string(99, '\x24'),
      std::string(100, '\x23') + std::string(100, '\x24'),
      std::string(101, '\x23') + std::string(101, '\x24'),
  };
  for (const std::string& message : messages) {
    EXPECT_EQ(DifferenceFromProtobuf(message, {}), "") << absl::BytesToHexString(message);
  }
}

// Protobuf takes a hundred levels, of messages and of groups together.
TEST(ReceivedUpdateTest, TakesGroupsInMessagesAsDeepAsProtobufDoes) {
  for (const size_t depth : {97, 98, 99, 100}) {
    // Field 15, which no message has.
    const std::string groups = std::string(depth, '\x7b') + std::string(depth, '\x7c');
    for (const int outer : {1, 2, 3, 4}) {
      const std::string message = Delimited(outer, groups);
      EXPECT_EQ(DifferenceFromProtobuf(message, {}), "") << depth << " in " << outer;
      for (const int inner : {1, 2}) {
        const std::string deeper = Delimited(outer, Delimited(inner, groups));
        EXPECT_EQ(DifferenceFromProtobuf(deeper, {}), "")
            << depth << " in " << inner << " in " << outer;
      }
    }
  }
}

// Messages that are nearly right, cut anywhere.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Message() {
    std::string bytes;
    for (uint64_t parts = Below(4); parts > 0; --parts) bytes += Part();
    for (uint64_t changes = Below(4); changes > 0 && !bytes.empty(); --changes) Change(bytes);
    return bytes;
  }
  std::vector<size_t> Cuts(const std::string& bytes) {
    std::vector<size_t> cuts(Below(5));
    for (size_t& cut : cuts) cut = Below(bytes.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

 private:
  uint64_t Below(uint64_t end) {
    return std::uniform_int_distribution<uint64_t>(0, end - 1)(random_);
  }
  std::string Part() {
    switch (Below(7)) {
      case 0:
        return SomeUpdate().SerializeAsString();
      case 1:
        return SomeUpdate().update().SerializeAsString();
      case 2:
        return SomeChunk().SerializeAsString();
      case 3: {
        v1::StreamUpdatesRequest message;
        *message.mutable_begin() = testing::Chunked(SomeUpdate().update()).begin;
        return message.SerializeAsString();
      }
      case 4: {
        v1::ReduceRequest message;
        *message.mutable_start()->mutable_spec() = testing::VectorRound("t", 9);
        return message.SerializeAsString();
      }
      case 5: {
        v1::StreamUpdatesRequest message;
        for (uint64_t u = Below(3); u > 0; --u) {
          *message.mutable_batch()->add_updates() = SomeUpdate().update();
        }
        return message.SerializeAsString();
      }
      default:
        return std::string("\x23\x08\x05\x24", 4);  // an unknown group
    }
  }
  void Change(std::string& bytes) {
    const size_t at = Below(bytes.size());
    switch (Below(4)) {
      case 0:
        bytes[at] = static_cast<char>(Below(256));
        break;
      case 1:
        bytes[at] ^= static_cast<char>(1 << Below(8));
        break;
      case 2:
        bytes.erase(at, 1 + Below(3));
        break;
      default:
        bytes.insert(at, bytes, Below(bytes.size()), 1 + Below(8));
    }
  }
  std::mt19937_64 random_;
};

TEST(ReceivedUpdateTest, ReadsWhatProtobufReadsAndRefusesWhatItRefuses) {
  const int messages = testing::Effort("SPARSEAGG_MESSAGES", 50'000);
  const google::protobuf::LogSilencer quiet;
  int accepted = 0;
  for (int seed = 0; seed < messages; ++seed) {
    Mutator mutator(seed);
    const std::string bytes = mutator.Message();
    const std::vector<size_t> cuts = mutator.Cuts(bytes);
    ASSERT_EQ(DifferenceFromProtobuf(bytes, cuts), "")
        << "seed " << seed << ": " << absl::BytesToHexString(bytes);
    accepted += v1::StreamUpdatesRequest().ParseFromString(bytes) ? 1 : 0;
  }
  // Both outcomes were met often.
  EXPECT_GT(accepted, messages / 10);
  EXPECT_LT(accepted, messages * 9 / 10);
}

}  // namespace
}  // namespace sparseagg
