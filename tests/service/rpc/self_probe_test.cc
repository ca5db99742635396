#include "service/rpc/self_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "tests/service/rpc/test_server.h"
#include "tests/support/silent_listener.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Runs the self-probe with `results`, in order, and returns its events.
std::string EventsOf(const std::vector<ProbeResult>& results) {
  std::string said;
  size_t next = 0;
  std::promise<void> done;
  {
    SelfProbe probe(
        milliseconds(1),
        [&] {
          if (next == results.size()) done.set_value();
          return next < results.size() ? results[next++] : (++next, results.back());
        },
        {.first_answer = [&] { said += "answer "; },
         .no_descriptors = [&] { said += "none "; },
         .unreachable = [&](int tries) { said += "unreachable" + std::to_string(tries) + " "; }});
    done.get_future().wait();
  }
  return said;
}

TEST(SelfProbeTest, ThreeSilencesInARowAreDeafness) {
  constexpr auto kYes = ProbeResult::kAnswers;
  constexpr auto kNo = ProbeResult::kUnreachable;
  constexpr auto kNone = ProbeResult::kNoDescriptors;
  EXPECT_EQ(EventsOf({kYes, kNo, kNo, kYes, kNo, kNo, kYes}), "answer ");
  EXPECT_EQ(EventsOf({kYes, kNo, kNo, kNo, kYes}), "answer unreachable3 ");
  EXPECT_EQ(EventsOf({kYes, kNone, kNone, kNone, kNone, kYes}), "answer none ");
  EXPECT_EQ(EventsOf({kYes, kNo, kNone, kNo, kNone, kNo, kYes}), "answer none none unreachable3 ")
      << "not to know is no answer";
}

TEST(SelfProbeTest, HearsAServerAndNoticesItsEnd) {
  std::string address;
  {
    testing::TestServer server;
    address = server.address();
    EXPECT_EQ(Probe(address, seconds(60)), ProbeResult::kAnswers);
  }
  EXPECT_EQ(Probe(address, seconds(60)), ProbeResult::kUnreachable);
}

TEST(SelfProbeTest, HearsAServerOnAUnixSocket) {
  const std::string listen = "unix:" + ::testing::TempDir() + "sparseagg_probe.sock";
  {
    testing::TestServer server({}, listen);
    EXPECT_EQ(Probe(listen, seconds(60)), ProbeResult::kAnswers);
  }
  EXPECT_EQ(Probe(listen, seconds(60)), ProbeResult::kUnreachable);
}

TEST(SelfProbeTest, AListenerThatDoesNotAcceptIsUnreachable) {
  const testing::SilentListener listener;
  EXPECT_EQ(Probe(listener.address(), milliseconds(50)), ProbeResult::kUnreachable)
      << "the system has connected";
}

TEST(SelfProbeTest, DialsWhereTheServerListens) {
  EXPECT_EQ(AddressToDial("127.0.0.1:0", 17), "127.0.0.1:17");
  EXPECT_EQ(AddressToDial("0.0.0.0:5", 5), "127.0.0.1:5");
  EXPECT_EQ(AddressToDial("[::]:5", 5), "[::1]:5");
  EXPECT_EQ(AddressToDial("example.org:5", 5), "example.org:5");
  EXPECT_EQ(AddressToDial("unix:/run/s.sock", 0), "unix:/run/s.sock");
}

}  // namespace
}  // namespace sparseagg
