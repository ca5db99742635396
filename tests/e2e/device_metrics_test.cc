// The real program reports the metrics of its GPU, which is emulated (tests/cuda/emulator).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::VectorEntries;
using testing::VectorRound;
using testing::VectorUpdate;

class DeviceMetricsTest : public ::testing::Test {
 protected:
  DeviceMetricsTest() {
    int port = 0;
    std::ifstream(folder_.path() + "/admin_port") >> port;
    http_ = std::make_unique<httplib::Client>("127.0.0.1", port);
  }

  std::string Get(const std::string& path) {
    const auto answer = http_->Get(path);
    return answer ? answer->body : "no answer";
  }

  testing::TemporaryFolder folder_;
  testing::ServerProcess server_{{"--backend", "cuda", "--admin-listen", "127.0.0.1:0",
                                  "--admin-port-file", folder_.path() + "/admin_port"}};
  testing::TestClient client_{testing::NewChannel(server_.address())};
  std::unique_ptr<httplib::Client> http_;
};

TEST_F(DeviceMetricsTest, ARoundShowsInMetricsAndStatus) {
  EXPECT_THAT(Get("/metrics"), HasSubstr("sparseagg_device_transferred_bytes_total"
                                         "{device=\"0\",direction=\"to_device\"} 0\n"));
  const std::string round = client_.Create(VectorRound("t", 10), "step-1")->name();
  ASSERT_TRUE(
      client_.Submit(VectorUpdate(round, "a", VectorEntries("t", 10, {3, 4}, {7, 8}))).ok());
  ASSERT_TRUE(client_.Publish(round).ok());
  // Rows of 8 bytes, values of 4; the result has both rows.
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("sparseagg_device_transferred_bytes_total"
                                 "{device=\"0\",direction=\"to_device\"} 24\n"));
  EXPECT_THAT(metrics, HasSubstr("sparseagg_device_transferred_bytes_total"
                                 "{device=\"0\",direction=\"to_host\"} 24\n"));
  EXPECT_THAT(metrics, HasSubstr("sparseagg_device_waiting_tasks{device=\"0\"} 0\n"));
  EXPECT_THAT(metrics, Not(HasSubstr("sparseagg_device_busy_seconds_total{device=\"0\"} 0\n")));
  const auto device = nlohmann::json::parse(Get("/api/status"))["engine"]["devices"][0];
  EXPECT_GT(device["memory"]["max"], 0);
  EXPECT_EQ(device["uploaded_bytes"], 24);
  EXPECT_EQ(device["downloaded_bytes"], 24);
  EXPECT_EQ(device["waiting_tasks"], 0);
  EXPECT_GT(device["busy_seconds"], 0);
}

TEST_F(DeviceMetricsTest, EveryMetricOfADeviceIsDocumented) {
  const auto names = [](const std::string& text, const std::string& pattern) {
    const std::regex expression(pattern);
    std::set<std::string> found;
    for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) {
      found.insert((*it)[1]);
    }
    return found;
  };
  std::ifstream file(SPARSEAGG_SOURCE_DIR "/docs/metrics.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  const auto documented = names(docs, "\\n\\| `(sparseagg_device_[a-z_]+)`");
  EXPECT_EQ(documented.size(), 8u);
  EXPECT_EQ(names(Get("/metrics"), "# TYPE (sparseagg_device_[a-z_]+) "), documented);
}

}  // namespace
}  // namespace sparseagg
