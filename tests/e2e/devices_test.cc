// The real program on four GPUs, which are emulated: the bits, what it says of them, and that it
// goes on without one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::VectorEntries;
using testing::VectorUpdate;

constexpr int kContributors = 24;
constexpr int64_t kRows = 2000;
constexpr int kEntries = 300;

// Values whose sum in floats depends on the order.
v1::SubmitUpdateRequest UpdateOf(const std::string& round, int contributor) {
  std::mt19937_64 random(static_cast<uint64_t>(contributor));
  std::vector<int64_t> rows;
  std::vector<float> values;
  for (int e = 0; e < kEntries; ++e) {
    rows.push_back(static_cast<int64_t>(random() % kRows));
    values.push_back(static_cast<float>(random() % 2000) * 1e3f - 1e6f + 1e-3f);
  }
  return VectorUpdate(round, "c" + std::to_string(contributor),
                      VectorEntries("t", kRows, rows, values));
}

class DevicesTest : public ::testing::Test {
 protected:
  // Every update is a batch of its own.
  DevicesTest() {
    setenv("SPARSEAGG_EMULATED_DEVICES", "4", 1);
    setenv("SPARSEAGG_EMULATED_BATCH_BYTES", "1", 1);
  }
  ~DevicesTest() override {
    unsetenv("SPARSEAGG_EMULATED_DEVICES");
    unsetenv("SPARSEAGG_EMULATED_BATCH_BYTES");
    unsetenv("SPARSEAGG_EMULATED_LOSS");
  }

  void Start(const std::string& devices) {
    server_ = std::make_unique<testing::ServerProcess>(
        std::vector<std::string>{"--backend", "cuda", "--devices", devices, "--admin-listen",
                                 "127.0.0.1:0", "--admin-port-file", folder_.path() + "/port"});
    client_ = std::make_unique<testing::TestClient>(testing::NewChannel(server_->address()));
  }
  // The answer of a round of all updates.
  std::string Round(const std::string& id) {
    const std::string round = client_->Create(testing::VectorRound("t", kRows), id)->name();
    for (int c = 0; c < kContributors; ++c) {
      EXPECT_TRUE(client_->Submit(UpdateOf(round, c)).ok()) << c;
    }
    EXPECT_TRUE(client_->Publish(round).ok());
    const auto answer = client_->Aggregate(round);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->bytes : "";
  }
  std::string Metrics() {
    int port = 0;
    std::ifstream(folder_.path() + "/port") >> port;
    const auto answer = httplib::Client("127.0.0.1", port).Get("/metrics");
    return answer ? answer->body : "no answer";
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<testing::ServerProcess> server_;
  std::unique_ptr<testing::TestClient> client_;
};

TEST_F(DevicesTest, FourDevicesGiveTheBytesOfOneAndAllOfThemWork) {
  Start("1");
  const std::string expected = Round("r");
  ASSERT_NE(expected, "");
  Start("4");
  EXPECT_EQ(Round("r"), expected);
  const auto info = client_->Info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_THAT(info->backends(0).devices(), ElementsAre("0: an emulated GPU", "1: an emulated GPU",
                                                       "2: an emulated GPU", "3: an emulated GPU"));
  EXPECT_THAT(info->backends(0).description(), HasSubstr("4 devices: an emulated GPU"));
  const std::string metrics = Metrics();
  for (const char* device : {"0", "1", "2", "3"}) {
    const std::string label = std::string("{device=\"") + device + "\"";
    EXPECT_THAT(metrics, HasSubstr("sparseagg_device_lost" + label + "} 0\n"));
    EXPECT_THAT(metrics, HasSubstr("sparseagg_device_queued_bytes" + label + "} 0\n"));
    EXPECT_THAT(metrics, ::testing::Not(HasSubstr("sparseagg_device_transferred_bytes_total" +
                                                  label + ",direction=\"to_device\"} 0\n")));
  }
}

TEST_F(DevicesTest, ADeviceThatFailsInARoundChangesNoByteAndIsLeftOut) {
  Start("1");
  const std::string expected = Round("r");
  for (const char* call : {"5", "40", "120"}) {
    setenv("SPARSEAGG_EMULATED_LOSS", (std::string("2:") + call).c_str(), 1);
    Start("all");
    EXPECT_EQ(Round("r"), expected) << call;
    EXPECT_EQ(Round("s"), expected) << call;
    EXPECT_TRUE(server_->WaitForLog("a GPU is lost; rounds continue without it"));
    EXPECT_THAT(server_->log(), HasSubstr("GPU 2 failed and is not used any more"));
    const std::string metrics = Metrics();
    EXPECT_THAT(metrics, HasSubstr("sparseagg_device_lost{device=\"2\"} 1\n"));
    EXPECT_THAT(metrics, HasSubstr("sparseagg_device_lost{device=\"3\"} 0\n"));
    EXPECT_THAT(metrics, HasSubstr("sparseagg_backend_lost 1\n"));
  }
}

TEST_F(DevicesTest, ADeviceThatIsNotThereKeepsTheServerFromStarting) {
  Start("0,4");
  EXPECT_EQ(server_->address(), "");
  EXPECT_EQ(server_->Wait(), 1);
  EXPECT_THAT(server_->log(), HasSubstr("UNKNOWN_DEVICE"));
  EXPECT_THAT(server_->log(), HasSubstr("no usable GPU 4; this machine has 4"));
}

}  // namespace
}  // namespace sparseagg
