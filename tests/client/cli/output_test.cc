#include "client/cli/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sparseagg::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

client::TensorStatus Reduced() {
  return {.name = "emb",
          .backend = "cpu",
          .plan = "sweep",
          .plan_reason = "it suits",
          .nnz_received = 30,
          .nnz_result = 17,
          .predicted_seconds = 0.25,
          .measured_seconds = 0.0125};
}

TEST(OutputTest, ARoundInJsonHasPlanAndTimesOfEachTensor) {
  client::RoundInfo round;
  round.tensor_status = {Reduced()};
  const nlohmann::json tensor = ToJson(round)["tensors"].at(0);
  EXPECT_EQ(tensor, (nlohmann::json{{"name", "emb"},
                                    {"backend", "cpu"},
                                    {"plan", "sweep"},
                                    {"plan_reason", "it suits"},
                                    {"nnz_received", 30},
                                    {"nnz_result", 17},
                                    {"predicted_seconds", 0.25},
                                    {"measured_seconds", 0.0125}}));
}

TEST(OutputTest, ARoundInTextHasPlanAndTimesOfEachTensor) {
  client::RoundInfo round;
  round.tensor_status = {Reduced()};
  EXPECT_THAT(ToText(round),
              HasSubstr("emb: sweep on cpu (it suits), nnz 30 received, 17 in the result, reduced "
                        "in 12.5 ms (250.0 ms predicted)\n"));
}

TEST(OutputTest, TimesThatAreNotKnownAreLeftOut) {
  client::TensorStatus tensor = Reduced();
  tensor.predicted_seconds = 0;
  EXPECT_THAT(ToText(tensor), EndsWith("reduced in 12.5 ms"));
  tensor.measured_seconds = 0;
  EXPECT_THAT(ToText(tensor), EndsWith("17 in the result"));
}

TEST(OutputTest, TheLoadIsShownIfTheServerSendsIt) {
  client::ServerInfo info;
  EXPECT_FALSE(ToJson(info).contains("load"));
  EXPECT_THAT(ToText(info), ::testing::Not(HasSubstr("load")));
  info.load = client::ServerLoad{.rounds = 3};
  EXPECT_EQ(ToJson(info)["load"]["rounds"], 3);
  EXPECT_THAT(ToText(info), HasSubstr("rounds 3\n"));
}

TEST(OutputTest, SecondsHaveAUnitOfTheirSize) {
  EXPECT_EQ(FormatSeconds(125), "125.0 s");
  EXPECT_EQ(FormatSeconds(1), "1.0 s");
  EXPECT_EQ(FormatSeconds(0.0015), "1.5 ms");
  EXPECT_EQ(FormatSeconds(2.5e-6), "2.5 us");
}

}  // namespace
}  // namespace sparseagg::cli
