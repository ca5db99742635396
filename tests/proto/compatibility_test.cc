// Nothing that was released in sparseagg.v1 changes: programs built against any earlier version go
// on working. v1_released.txt holds the released facts; `./dev release-proto` adds new ones.
#include <fstream>
#include <functional>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"
#include "sparseagg/v1/types.pb.h"
#include "tests/proto/facts.h"

namespace sparseagg {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::set<std::string> ReleasedFacts() {
  std::ifstream file(SPARSEAGG_RELEASED_FACTS);
  std::set<std::string> facts;
  for (std::string line; std::getline(file, line);) facts.insert(line);
  return facts;
}

TEST(CompatibilityTest, EverythingReleasedIsUnchanged) {
  const std::set<std::string> released = ReleasedFacts();
  ASSERT_THAT(released, Not(IsEmpty())) << SPARSEAGG_RELEASED_FACTS;
  EXPECT_THAT(BrokenFacts(released, CurrentInterfaceFacts()), IsEmpty());
}

TEST(CompatibilityTest, TheReleasedInterfaceHoldsEveryKindOfFact) {
  const std::set<std::string> released = ReleasedFacts();
  for (const char* fact : {
           "message sparseagg.v1.Receipt",
           "field sparseagg.v1.Receipt.sequence = 5 uint64 singular",
           "field sparseagg.v1.UpdateHeader.weight = 4 float optional",
           "field sparseagg.v1.Tensor.header = 1 sparseagg.v1.TensorHeader singular",
           "field sparseagg.v1.StreamUpdatesRequest.begin = 2 sparseagg.v1.BeginUpdate in oneof "
           "body",
           "value sparseagg.v1.VALUE_TYPE_F32 = 3 in sparseagg.v1.ValueType",
           "rpc sparseagg.v1.AggregationService.StreamUpdates: stream "
           "sparseagg.v1.StreamUpdatesRequest -> stream sparseagg.v1.StreamUpdatesResponse",
       }) {
    EXPECT_TRUE(released.contains(fact)) << fact;
  }
}

// The facts that break when types.proto's Receipt is changed by `change`.
std::vector<std::string> BrokenBy(const std::function<void(DescriptorProto& receipt)>& change) {
  const auto& original = *v1::Receipt::descriptor()->file();
  FileDescriptorProto file;
  original.CopyTo(&file);
  for (DescriptorProto& message : *file.mutable_message_type()) {
    if (message.name() == "Receipt") change(message);
  }
  // A package of its own, so that the names do not clash with the linked-in ones.
  file.set_name("changed.proto");
  file.set_package("changed.v1");
  for (DescriptorProto& message : *file.mutable_message_type()) {
    for (FieldDescriptorProto& field : *message.mutable_field()) {
      if (field.type_name().starts_with(".sparseagg.v1.")) {
        field.set_type_name(".changed.v1." + field.type_name().substr(14));
      }
    }
  }
  DescriptorPool pool(DescriptorPool::generated_pool());
  const auto* built = pool.BuildFile(file);
  if (built == nullptr) return {"the changed file does not build"};
  std::set<std::string> facts;
  for (std::string fact : InterfaceFacts(*built)) {
    for (size_t at; (at = fact.find("changed.v1.")) != std::string::npos;) {
      fact.replace(at, 11, "sparseagg.v1.");
    }
    facts.insert(fact);
  }
  return BrokenFacts(InterfaceFacts(original), facts);
}

FieldDescriptorProto& Field(DescriptorProto& message, const std::string& name) {
  for (FieldDescriptorProto& field : *message.mutable_field()) {
    if (field.name() == name) return field;
  }
  return *message.add_field();
}

constexpr char kSequence[] = "field sparseagg.v1.Receipt.sequence = 5 uint64 singular";

TEST(CompatibilityTest, NoChangeBreaksNothing) {
  EXPECT_THAT(BrokenBy([](DescriptorProto&) {}), IsEmpty());
}

TEST(CompatibilityTest, AnAddedFieldBreaksNothing) {
  EXPECT_THAT(BrokenBy([](DescriptorProto& receipt) {
                FieldDescriptorProto& field = *receipt.add_field();
                field.set_name("later");
                field.set_number(100);
                field.set_type(FieldDescriptorProto::TYPE_UINT64);
                field.set_label(FieldDescriptorProto::LABEL_OPTIONAL);
              }),
              IsEmpty());
}

TEST(CompatibilityTest, ARenumberedFieldIsCaught) {
  EXPECT_THAT(BrokenBy([](DescriptorProto& receipt) { Field(receipt, "sequence").set_number(50); }),
              ElementsAre(kSequence));
}

TEST(CompatibilityTest, ARenamedFieldIsCaught) {
  EXPECT_THAT(BrokenBy([](DescriptorProto& receipt) {
                Field(receipt, "sequence").set_name("position");
                Field(receipt, "position").clear_json_name();
              }),
              ElementsAre(kSequence));
}

TEST(CompatibilityTest, AnotherTypeIsCaught) {
  EXPECT_THAT(BrokenBy([](DescriptorProto& receipt) {
                Field(receipt, "sequence").set_type(FieldDescriptorProto::TYPE_INT64);
              }),
              ElementsAre(kSequence));
}

TEST(CompatibilityTest, AnotherLabelIsCaught) {
  EXPECT_THAT(BrokenBy([](DescriptorProto& receipt) {
                Field(receipt, "sequence").set_label(FieldDescriptorProto::LABEL_REPEATED);
              }),
              ElementsAre(kSequence));
}

void RemoveSequence(DescriptorProto& receipt) {
  auto& fields = *receipt.mutable_field();
  for (int i = 0; i < fields.size(); ++i) {
    if (fields[i].name() == "sequence") fields.DeleteSubrange(i--, 1);
  }
}

TEST(CompatibilityTest, ARemovedFieldIsCaught) {
  EXPECT_THAT(BrokenBy(RemoveSequence), ElementsAre(kSequence));
}

TEST(CompatibilityTest, ARemovedFieldMayStayReserved) {
  const auto remove = [](DescriptorProto& receipt) {
    RemoveSequence(receipt);
    auto& range = *receipt.add_reserved_range();
    range.set_start(5);
    range.set_end(6);
  };
  EXPECT_THAT(BrokenBy(remove), SizeIs(1)) << "its name is not reserved";
  EXPECT_THAT(BrokenBy([&](DescriptorProto& receipt) {
                remove(receipt);
                receipt.add_reserved_name("sequence");
              }),
              IsEmpty());
}

}  // namespace
}  // namespace sparseagg
