// Tests the admin port of the real program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

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

const httplib::Headers kAdmin = {{"X-Sparseagg-Admin", "1"}};

class AdminTest : public ::testing::Test {
 protected:
  AdminTest() {
    std::ifstream(folder_.path() + "/admin_port") >> port_;
    http_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
  }

  std::string Get(const std::string& path) {
    const auto answer = http_->Get(path);
    return answer ? answer->body : "no answer";
  }
  int Post(const std::string& path, const httplib::Headers& headers = kAdmin) {
    const auto answer = http_->Post(path, headers, "", "text/plain");
    return answer ? answer->status : -1;
  }

  int Connect() const {
    const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return connection;
  }
  // Sends a request of exactly these headers and bytes, and returns the server's answer.
  std::string RawPost(const std::string& path, const std::string& headers,
                      const std::string& body = "") const {
    const int connection = Connect();
    const std::string request = "POST " + path +
                                " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                "X-Sparseagg-Admin: 1\r\n" +
                                headers + "\r\n" + body;
    EXPECT_EQ(write(connection, request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char piece[4096];
    for (ssize_t n = 0; (n = read(connection, piece, sizeof(piece))) > 0;) answer.append(piece, n);
    close(connection);
    return answer;
  }

  // Publishes a durable round with an accepted, a repeated and a refused update.
  void RunARound() {
    const std::string round = client_.Create(VectorRound("t", 10), "step-1")->name();
    const auto update = VectorUpdate(round, "a", VectorEntries("t", 10, {3, 4}, {7, 8}));
    ASSERT_TRUE(client_.Submit(update).ok());
    ASSERT_TRUE(client_.Submit(update).ok());
    ASSERT_FALSE(
        client_.Submit(VectorUpdate(round, "b", VectorEntries("t", 10, {812731}, {1}))).ok());
    ASSERT_TRUE(client_.Publish(round).ok());
  }

  testing::TemporaryFolder folder_;
  testing::ServerProcess server_{{"--admin-listen", "127.0.0.1:0", "--admin-port-file",
                                  folder_.path() + "/admin_port", "--data-dir",
                                  folder_.path() + "/data"}};
  testing::TestClient client_{testing::NewChannel(server_.address())};
  int port_ = 0;
  std::unique_ptr<httplib::Client> http_;
};

std::set<std::string> Matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), expression);
       it != std::sregex_iterator(); ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

TEST_F(AdminTest, EveryMetricIsDocumentedAndEveryDocumentedOneExists) {
  RunARound();
  std::ifstream file(SPARSEAGG_SOURCE_DIR "/docs/metrics.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> documented = Matches(docs, "\\n\\| `([a-z_]+)`");
  // A server without a GPU has no device metrics (device_metrics_test checks them), and one without
  // leaves has none of leaves.
  std::erase_if(documented, [](const std::string& name) {
    return name.starts_with("sparseagg_device_") || name.starts_with("sparseagg_leaf_");
  });
  EXPECT_GT(documented.size(), 20);
  EXPECT_EQ(Matches(Get("/metrics"), "# TYPE ([a-z_]+) "), documented);
}

TEST_F(AdminTest, MetricsTellWhatHappened) {
  RunARound();
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("sparseagg_updates_total{outcome=\"accepted\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("sparseagg_updates_total{outcome=\"duplicate\"} 1\n"));
  EXPECT_THAT(
      metrics,
      HasSubstr("sparseagg_refusals_total{reason=\"INDEX_OUT_OF_RANGE\",retry=\"no\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("sparseagg_rounds{state=\"PUBLISHED\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("sparseagg_store_commit_updates_count 1\n"));
  EXPECT_THAT(metrics, HasSubstr("sparseagg_ready 1\n"));
}

TEST_F(AdminTest, StatusAndRoundsSayWhatThePageShows) {
  RunARound();
  const auto status = nlohmann::json::parse(Get("/api/status"));
  EXPECT_EQ(status["phase"], "serving");
  EXPECT_EQ(status["listen"], server_.address());
  EXPECT_EQ(status["totals"]["accepted"], 1);
  EXPECT_EQ(status["refusals"]["recent"][0]["reason"], "INDEX_OUT_OF_RANGE");
  const auto rounds = nlohmann::json::parse(Get("/api/rounds"));
  ASSERT_EQ(rounds["total"], 1);
  EXPECT_EQ(rounds["rounds"][0]["name"], "rounds/step-1");
  EXPECT_EQ(rounds["rounds"][0]["state"], "PUBLISHED");
  const auto round = nlohmann::json::parse(Get("/api/round?name=rounds/step-1"));
  EXPECT_EQ(round["tensors"][0]["nnz_received"], 2);
  EXPECT_EQ(round["tensors"][0]["result_density"], 0.2);
  EXPECT_EQ(round["manifest"]["contributors"], 1);
  const auto missing = http_->Get("/api/round?name=rounds/none");
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->status, 404);
  const auto config = nlohmann::json::parse(Get("/api/config"));
  EXPECT_EQ(config["settings"][0]["name"], "listen");
  EXPECT_EQ(config["settings"][0]["source"], "flag --listen");
}

TEST_F(AdminTest, ARoundShowsHowFarItIsAndHowItEnds) {
  v1::RoundSpec spec = VectorRound("t", 10);
  spec.mutable_policy()->set_goal_contributors(2);
  spec.mutable_policy()->set_min_contributors(1);
  spec.mutable_policy()->mutable_open_for()->set_seconds(600);
  const std::string name = client_.Create(spec, "step-2")->name();
  const auto send = [&](const char* who) {
    return client_.Submit(VectorUpdate(name, who, VectorEntries("t", 10, {3}, {7}))).ok();
  };
  ASSERT_TRUE(send("a"));
  auto row = nlohmann::json::parse(Get("/api/rounds"))["rounds"][0];
  EXPECT_EQ(row["contributors"], 1);
  EXPECT_EQ(row["goal"], 2);
  EXPECT_EQ(row["close_time"].get<int64_t>() - row["create_time"].get<int64_t>(), 600'000);
  ASSERT_TRUE(send("b"));
  v1::WaitRoundRequest end;  // the receipt does not wait for the sealing that the goal starts
  end.set_name(name);
  ASSERT_TRUE(client_.Wait(end).ok());
  const auto round = nlohmann::json::parse(Get("/api/round?name=" + name));
  EXPECT_EQ(round["policy"]["min_contributors"], 1);
  EXPECT_EQ(round["policy"]["goal_reached"], true);
  EXPECT_EQ(round["policy"]["seal_reason"], "GOAL");
}

// Error messages quote numbers of an update. Only its sender may see them.
TEST_F(AdminTest, NothingOnThePortOrInTheLogQuotesAnIndex) {
  ASSERT_EQ(Post("/api/log-level?level=debug"), 200);
  RunARound();
  for (const char* path : {"/metrics", "/api/rounds", "/api/round?name=rounds/step-1"}) {
    EXPECT_THAT(Get(path), Not(HasSubstr("812731"))) << path;
  }
  const auto status = nlohmann::json::parse(Get("/api/status"));
  EXPECT_THAT(status["refusals"].dump(), Not(HasSubstr("812731")));
  ASSERT_TRUE(server_.WaitForLog("event=\"update refused\""));
  EXPECT_THAT(server_.log(), Not(HasSubstr("index 812731")));
}

TEST_F(AdminTest, CommandsNeedTheHeaderAndForeignHostsAreRefused) {
  EXPECT_EQ(Post("/api/drain", {}), 403);
  EXPECT_EQ(Post("/api/log-level?level=debug", {}), 403);
  const auto rebound = http_->Get("/api/status", {{"Host", "evil.example"}});
  ASSERT_TRUE(rebound);
  EXPECT_EQ(rebound->status, 403);
  EXPECT_EQ(Get("/healthz"), "ok\n");
}

// A port that is bound beyond loopback answers requests for any host name, but refuses commands
// that are sent to a name.
TEST(AdminPortTest, NoForeignNameStopsAServerThatListensEverywhere) {
  const testing::TemporaryFolder folder;
  const std::string port_file = folder.path() + "/admin_port";
  testing::ServerProcess server({"--admin-listen", "0.0.0.0:0", "--admin-port-file", port_file});
  int port = 0;
  std::ifstream(port_file) >> port;
  httplib::Client http("127.0.0.1", port);
  const auto status_of = [&](const std::string& host) {
    const httplib::Headers headers = {{"X-Sparseagg-Admin", "1"}, {"Host", host}};
    const auto answer = http.Post("/api/log-level?level=debug", headers, "", "text/plain");
    return answer ? answer->status : -1;
  };
  EXPECT_EQ(status_of("evil.example"), 403);
  EXPECT_EQ(status_of("10.0.0.7:50062"), 200);
  const auto looked = http.Get("/api/status", {{"Host", "agg.example"}});
  ASSERT_TRUE(looked);
  EXPECT_EQ(looked->status, 200);
}

TEST_F(AdminTest, RangesAreNotServed) {
  const auto answer = http_->Get("/", {{"Range", "bytes=0-,0-,0-"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 416);
  EXPECT_EQ(answer->body, "");
}

TEST_F(AdminTest, AHeaderWithoutEndIsReadToItsBound) {
  const int connection = Connect();
  const std::string piece(1 << 20, 'x');
  const std::string beginning = "GET / HTTP/1.1\r\nX: ";
  ASSERT_GT(send(connection, beginning.data(), beginning.size(), MSG_NOSIGNAL), 0);
  // Sends until the server closes the connection. A server without a bound would read all of it.
  size_t sent = 0;
  while (sent < (256 << 20)) {
    const ssize_t bytes = send(connection, piece.data(), piece.size(), MSG_NOSIGNAL);
    if (bytes <= 0) break;
    sent += static_cast<size_t>(bytes);
  }
  close(connection);
  EXPECT_LT(sent, 256 << 20);
}

TEST_F(AdminTest, AFewConnectionsThatSayNothingKeepNobodyWaiting) {
  std::vector<int> silent(8);
  for (int& connection : silent) connection = Connect();
  EXPECT_EQ(Get("/healthz"), "ok\n");
  for (const int connection : silent) close(connection);
}

TEST_F(AdminTest, TheLogLevelChangesWhileTheServerRuns) {
  EXPECT_EQ(Post("/api/log-level?level=loud"), 400);
  EXPECT_EQ(Post("/api/log-level?level=debug"), 200);
  ASSERT_TRUE(client_.Info().ok());
  EXPECT_TRUE(server_.WaitForLog("method=/sparseagg.v1.AggregationService/GetServerInfo"));
  const auto settings = nlohmann::json::parse(Get("/api/config"))["settings"];
  const auto row = std::find_if(settings.begin(), settings.end(),
                                [](const auto& setting) { return setting["name"] == "log-level"; });
  EXPECT_EQ((*row)["value"], "debug");
  EXPECT_EQ((*row)["source"], "changed while the server runs");
}

// `curl -X POST` sends this. No body follows, and the server does not wait for one.
TEST_F(AdminTest, ACommandThatAnnouncesNoBodyIsAnsweredAtOnce) {
  EXPECT_THAT(RawPost("/api/log-level?level=debug", ""), HasSubstr("HTTP/1.1 200 "));
  EXPECT_THAT(RawPost("/api/log-level?level=loud", ""), HasSubstr("HTTP/1.1 400 "));
  EXPECT_THAT(RawPost("/api/none", ""), HasSubstr("there is no command /api/none"));
}

TEST_F(AdminTest, TheBodyOfACommandMeansNothing) {
  EXPECT_THAT(RawPost("/api/log-level?level=info", "Content-Length: 3\r\n", "a=b"),
              HasSubstr("HTTP/1.1 200 "));
  EXPECT_THAT(
      RawPost("/api/log-level?level=info", "Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n"),
      HasSubstr("HTTP/1.1 200 "));
  EXPECT_THAT(RawPost("/api/log-level?level=info", "Content-Length: 5000\r\n"),
              HasSubstr("HTTP/1.1 413 "));
  const auto put = http_->Put("/api/drain", kAdmin, "", "text/plain");
  ASSERT_TRUE(put);
  EXPECT_EQ(put->status, 405);
}

TEST_F(AdminTest, ANumberThatIsNoneIsRefused) {
  const auto profile = http_->Post("/api/profile?seconds=x", kAdmin, "", "text/plain");
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->status, 400);
  EXPECT_THAT(profile->body, HasSubstr("seconds must be a whole number, and is \\\"x\\\""));
  EXPECT_THAT(Get("/api/rounds?limit=-1"), HasSubstr("limit must be a whole number"));
  EXPECT_THAT(Get("/api/status?after="), HasSubstr("after must be a whole number"));
}

// Clients and callers do not always send text.
TEST_F(AdminTest, ForeignBytesNeverKeepThePageFromAnswering) {
  const std::string round = client_.Create(VectorRound("t", 10), "step-1")->name();
  const std::string name = std::string(79, 'a') + "\u00e9\u00e9";
  ASSERT_FALSE(client_.Submit(VectorUpdate(round, name, VectorEntries("t", 10, {10}, {1}))).ok());
  const auto status = http_->Get("/api/status");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->status, 200);
  EXPECT_EQ(nlohmann::json::parse(status->body)["refusals"]["recent"].size(), 1);
  const auto number = http_->Get("/api/status?after=%ff");
  ASSERT_TRUE(number);
  EXPECT_EQ(number->status, 400);
  EXPECT_THAT(RawPost("/api/%ff", ""), HasSubstr("HTTP/1.1 404 "));
}

TEST_F(AdminTest, DrainEndsTheServerAsSigtermDoes) {
  EXPECT_EQ(Get("/readyz"), "serving\n");
  EXPECT_EQ(Post("/api/drain"), 202);
  EXPECT_EQ(server_.Wait(), 0);
  EXPECT_THAT(server_.log(), HasSubstr("event=stopped"));
}

TEST_F(AdminTest, AnotherServerDoesNotShareThePort) {
  const testing::ProgramRun second = testing::RunProgram(
      "serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:" + std::to_string(port_));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.output, HasSubstr("CANNOT_LISTEN"));
}

// A profile goes through a signal and a file in memory.
TEST_F(AdminTest, TakesACpuProfile) {
  http_->set_read_timeout(60);
  const auto answer = http_->Post("/api/profile?seconds=1", kAdmin, "", "text/plain");
  ASSERT_TRUE(answer);
  const bool no_profiler = answer->status == 503;  // a sanitizer's build
  EXPECT_TRUE(no_profiler || (answer->status == 200 && answer->body.size() > 100));
  EXPECT_EQ(Post("/api/profile?seconds=0"), 400);
}

TEST(ReloadTest, SighupTakesOverTheLogLevelOfTheFile) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/server.conf";
  std::ofstream(path) << "log-level = warning\n";
  testing::ServerProcess server({"--config", path, "--log-level=info"});
  // A flag takes precedence over the file, so its value stays.
  server.Signal(SIGHUP);
  EXPECT_TRUE(server.WaitForLog("event=\"configuration reloaded\" log_level=info"));
  std::ofstream(path) << "log-levle = debug\n";
  server.Signal(SIGHUP);
  EXPECT_TRUE(server.WaitForLog("event=\"configuration not reloaded\""));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace
}  // namespace sparseagg
