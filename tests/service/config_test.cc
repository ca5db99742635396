#include "service/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "base/cgroup_limits.h"
#include "base/status.h"
#include "service/config/config_file.h"
#include "service/config/devices.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file with the given text, gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(::testing::TempDir() + "sparseagg_config_" + std::to_string(getpid()) + ".conf") {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using Variables = std::map<std::string, std::string>;

ConfigSources Sources(const Variables& environment, const std::string& file = "") {
  ConfigSources sources;
  sources.environment = [environment](const std::string& name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional<std::string>(it->second);
  };
  sources.file = file;
  return sources;
}

std::string ErrorOf(const ConfigSources& sources) {
  const auto loaded = LoadConfig(sources);
  EXPECT_FALSE(loaded.ok());
  return std::string(loaded.status().message());
}

TEST(ConfigTest, TellsVariablesThatAreNoSettings) {
  ConfigSources sources = Sources({});
  sources.variables = {"PATH", "SPARSEAGG_ROUND_MAX", "SPARSEAGG_ROUNDS_MAX", "SPARSEAGG_PORT_FILE",
                       "SPARSEAGG_REPORT_1",
                       // what Kubernetes makes for a service of the name
                       "SPARSEAGG_PORT", "SPARSEAGG_PORT_50061_TCP_ADDR", "SPARSEAGG_SERVICE_HOST",
                       "SPARSEAGG_SERVICE_PORT_GRPC"};
  const auto loaded = LoadConfig(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->unknown_variables, ElementsAre("SPARSEAGG_ROUND_MAX", "SPARSEAGG_REPORT_1"));
}

TEST(ConfigTest, DefaultsAreLoopbackAndAutomaticBackend) {
  const auto loaded = LoadConfig(Sources({}));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.listen, "127.0.0.1:50061");
  EXPECT_EQ(loaded->config.backend, "auto");
  EXPECT_EQ(loaded->config.limits.message_bytes_max, 16u << 20);
}

TEST(ConfigTest, StagingTakesNoMoreThanAQuarterOfTheMemoryByDefault) {
  const uint64_t staging = ServerConfig().limits.staging_bytes_max;
  EXPECT_EQ(staging, std::min(Limits().staging_bytes_max, AvailableMemoryBytes() / 4));
  EXPECT_GT(staging, 0);
}

TEST(ConfigTest, DevicesAreACountOrAllOrNumbers) {
  const auto numbers = [](const std::string& text) { return ParseDevices(text)->numbers; };
  EXPECT_THAT(numbers("1"), ElementsAre(0));
  EXPECT_THAT(numbers("3"), ElementsAre(0, 1, 2));
  EXPECT_THAT(numbers("0,2,3"), ElementsAre(0, 2, 3));
  EXPECT_THAT(numbers("3,"), ElementsAre(3));
  EXPECT_TRUE(ParseDevices("all")->all);
  ConfigSources sources = Sources({{"SPARSEAGG_DEVICES", "0,2"}});
  EXPECT_EQ(LoadConfig(sources)->config.devices, "0,2");
  for (const char* wrong : {"0", "65", "-1", "two", "1,1", "1,,2", ",", "0,64", "all,1"}) {
    sources.flags["devices"] = wrong;
    EXPECT_THAT(ErrorOf(sources), HasSubstr("must be a count, all, or numbers between commas"))
        << wrong;
  }
}

TEST(ConfigTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const TemporaryFile file("threads = 1\nrounds-max = 11\nbackend = file\n");
  ConfigSources sources =
      Sources({{"SPARSEAGG_ROUNDS_MAX", "22"}, {"SPARSEAGG_BACKEND", "env"}}, file.path());
  sources.flags["backend"] = "flag";
  const auto loaded = LoadConfig(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.threads, 1);
  EXPECT_EQ(loaded->config.limits.rounds_max, 22);
  EXPECT_EQ(loaded->config.backend, "flag");
}

TEST(ConfigTest, SwitchesAreTrueOrFalse) {
  EXPECT_FALSE(LoadConfig(Sources({}))->config.allow_plaintext);
  EXPECT_TRUE(LoadConfig(Sources({}))->config.tls.client_certificate_required);
  const auto loaded = LoadConfig(Sources(
      {{"SPARSEAGG_ALLOW_PLAINTEXT", "true"}, {"SPARSEAGG_TLS_CLIENT_CERT_REQUIRED", "false"}}));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->config.allow_plaintext);
  EXPECT_FALSE(loaded->config.tls.client_certificate_required);
  EXPECT_THAT(ErrorOf(Sources({{"SPARSEAGG_ALLOW_PLAINTEXT", "1"}})),
              HasSubstr("must be true or false"));
}

TEST(ConfigTest, PrintsEachValueWithItsSource) {
  const TemporaryFile file("# a comment\n\nthreads = 3\n");
  const auto loaded = LoadConfig(Sources({{"SPARSEAGG_ROUNDS_MAX", "22"}}, file.path()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::string text = PrintConfig(*loaded);
  EXPECT_THAT(text, HasSubstr("threads = 3  # " + file.path() + ":3"));
  EXPECT_THAT(text, HasSubstr("rounds-max = 22  # environment SPARSEAGG_ROUNDS_MAX"));
  EXPECT_THAT(text, HasSubstr("listen = \"127.0.0.1:50061\"  # default"));
}

TEST(ConfigTest, WhatItPrintsCanBeReadBack) {
  ConfigSources sources = Sources({});
  sources.flags = {
      {"listen", "unix:/run/a b#c.sock"}, {"drain-timeout-ms", "5s"}, {"log-level", "debug"}};
  const auto first = LoadConfig(sources);
  ASSERT_TRUE(first.ok()) << first.status();
  const TemporaryFile file(PrintConfig(*first));
  const auto second = LoadConfig(Sources({}, file.path()));
  ASSERT_TRUE(second.ok()) << second.status();
  for (const Setting& setting : Settings()) {
    EXPECT_EQ(setting.print(first->config), setting.print(second->config)) << setting.name;
  }
  EXPECT_EQ(second->config.drain_timeout_ms, 5000);
}

TEST(ConfigTest, SizesMayHaveUnits) {
  ConfigSources sources = Sources({});
  sources.flags["message-bytes-max"] = "32MiB";
  EXPECT_EQ(LoadConfig(sources)->config.limits.message_bytes_max, 32u << 20);
}

TEST(ConfigTest, AnUnknownKeyNamesFileLineAndKey) {
  const TemporaryFile file("threads = 1\nthread = 2\n");
  const std::string error = ErrorOf(Sources({}, file.path()));
  EXPECT_THAT(error, HasSubstr(file.path() + ":2"));
  EXPECT_THAT(error, HasSubstr("\"thread\""));
}

TEST(ConfigTest, AKeySetTwiceInAFileIsAnError) {
  const TemporaryFile file("threads = 1\nthreads = 2\n");
  EXPECT_THAT(ErrorOf(Sources({}, file.path())), HasSubstr(":2: threads is set twice"));
}

TEST(ConfigTest, ABadValueNamesItsSourceAndWhatIsAllowed) {
  const std::string error = ErrorOf(Sources({{"SPARSEAGG_THREADS", "many"}}));
  EXPECT_THAT(error, HasSubstr("environment SPARSEAGG_THREADS: threads is \"many\""));
  EXPECT_THAT(error, HasSubstr("from 0 to 4096"));
}

TEST(ConfigTest, AWrongAddressOfALeafNamesTheLeaf) {
  ConfigSources sources = Sources({});
  sources.flags["leaves"] = "10.0.0.2:50061,two=[::1]:50061";
  EXPECT_TRUE(LoadConfig(sources).ok());
  for (const char* wrong : {"two=b", "two=b:0", "two=unix:/tmp/s", "two=http://b:1", "two=b:1/x"}) {
    sources.flags["leaves"] = std::string("a:1,") + wrong;
    EXPECT_THAT(ErrorOf(sources), HasSubstr(std::string("leaf ") + wrong)) << wrong;
  }
}

class BadNumberTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BadNumberTest, IsRefused) {
  ConfigSources sources = Sources({});
  sources.flags["message-bytes-max"] = GetParam();
  EXPECT_EQ(ErrorReason(LoadConfig(sources).status()), "INVALID_CONFIG") << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Values, BadNumberTest,
                         ::testing::Values("", "-1", "0", "1.5MiB", "16MB", "16s", "2048MiB",
                                           " 1048576", "99999999999999999999",
                                           "17592186044416TiB"));

TEST(ConfigTest, AShareIsANumberFromZeroToOne) {
  ConfigSources sources = Sources({});
  for (const char* share : {"0", "1", "0.25", "1e-3"}) {
    sources.flags["verify-share"] = share;
    const auto loaded = LoadConfig(sources);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->config.verify_share, std::stod(share));
  }
  for (const char* share : {"", "-0.1", "1.1", "50%", "nan", "inf", "0,5", " 1"}) {
    sources.flags["verify-share"] = share;
    const std::string error = ErrorOf(sources);
    EXPECT_THAT(error, HasSubstr("verify-share")) << share;
    EXPECT_THAT(error, HasSubstr("a number from 0 to 1")) << share;
  }
}

TEST(ConfigTest, EveryLimitIsASetting) {
  // The limits are all of one type, so their number is the size of the structs.
  size_t limits = 0;
  for (const Setting& setting : Settings()) limits += setting.is_limit ? 1 : 0;
  EXPECT_EQ(limits, (sizeof(Limits) + sizeof(TaskLimits)) / sizeof(uint64_t));
}

TEST(ConfigTest, NamesTheFileThatCannotBeRead) {
  EXPECT_THAT(ErrorOf(Sources({}, "/nowhere/sparseagg.conf")),
              HasSubstr("/nowhere/sparseagg.conf"));
}

TEST(ConfigFileTest, CommentsAndQuotes) {
  const auto lines = ParseConfigFile("a = 1 # one\n  # none\nb=\"x # y\"\nc = x#y", "f");
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 3);
  EXPECT_EQ((*lines)[0].value, "1");
  EXPECT_EQ((*lines)[1].value, "x # y");
  EXPECT_EQ((*lines)[1].line, 3);
  EXPECT_EQ((*lines)[2].value, "x#y");
}

TEST(ConfigFileTest, ALineWithoutEqualsNamesItsNumber) {
  EXPECT_THAT(std::string(ParseConfigFile("a = 1\nthreads 4\n", "f").status().message()),
              HasSubstr("f:2"));
}

TEST(ConfigFileTest, OpenQuotesAreAnError) {
  EXPECT_FALSE(ParseConfigFile("a = \"1\n", "f").ok());
  EXPECT_FALSE(ParseConfigFile("a = \"1\" 2\n", "f").ok());
}

TEST(LogTest, ALineStaysALine) {
  EXPECT_EQ(FormatEvent("round created",
                        {{"name", "rounds/a"}, {"why", "a \"b\"\n\\c\x01"}, {"empty", ""}}),
            R"(event="round created" name=rounds/a why="a \"b\"\n\\c\x01" empty="")");
}

}  // namespace
}  // namespace sparseagg
