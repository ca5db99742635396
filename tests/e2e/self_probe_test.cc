// A server that ran out of file descriptors keeps running while they are in use. It ends itself
// when they are free again and it still accepts no connection.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "service/serve.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/test_client.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;

// Opens connections and sends nothing on them.
class SilentConnections {
 public:
  SilentConnections(const std::string& address, int number) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < number; ++i) {
      fds_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(connect(fds_.back(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    }
  }
  ~SilentConnections() {
    for (const int fd : fds_) close(fd);
  }

 private:
  std::vector<int> fds_;
};

rlim_t OpenFiles(pid_t pid) {
  const std::filesystem::directory_iterator fds("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<rlim_t>(std::distance(begin(fds), end(fds)));
}

TEST(SelfProbeTest, AServerThatHasGoneDeafEndsItself) {
  testing::ServerProcess server({"--self-probe-interval-ms", "200", "--log-level", "debug"});
  ASSERT_TRUE(server.WaitForLog("self-probe answered")) << server.log();
  rlimit files = {};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_NOFILE, nullptr, &files), 0);
  files.rlim_cur = OpenFiles(server.pid()) + 30;
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_NOFILE, &files, nullptr), 0);
  {
    const SilentConnections many(server.address(), 100);
    EXPECT_TRUE(server.WaitForLog("no file descriptors")) << server.log();
  }
  // All connections are closed now, but the distribution's gRPC accepts no new one any more.
  EXPECT_EQ(server.Wait(), kServeUnreachable) << server.log();
  EXPECT_THAT(server.log(), HasSubstr("no longer accepts connections"));
}

TEST(SelfProbeTest, ItCanBeTurnedOff) {
  testing::ServerProcess server({"--self-probe-interval-ms", "0", "--log-level", "debug"});
  testing::TestClient client(testing::NewChannel(server.address()));
  EXPECT_TRUE(client.Info().ok());
  EXPECT_THAT(server.log(), ::testing::Not(HasSubstr("self-probe")));
}

TEST(FileLimitTest, ALowHardLimitIsWarnedAboutWithNumbers) {
  // The server cannot listen at this address; it logs the warning before that error.
  const testing::ProgramRun run =
      testing::RunProgram("serve --listen 256.0.0.1:1", "ulimit -n 1000; ");
  EXPECT_THAT(run.output, HasSubstr("files=1000"));
  EXPECT_THAT(run.output, HasSubstr("wanted=65536"));
}

}  // namespace
}  // namespace sparseagg
