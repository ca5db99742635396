// A configuration that cannot work is refused before anything is started, with a message that says
// what would work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/e2e/server_process.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramRun;
using testing::RunProgram;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct BadAddress {
  std::string address;
  std::string why;
};

TEST(ListenTest, SaysWhatAnAddressLacks) {
  for (const BadAddress& bad : {
           BadAddress{"localhost", "the port is missing, write for example localhost:50061"},
           {"[::1]", "the port is missing, write for example [::1]:50061"},
           {"127.0.0.1:", "the port is missing; 0 means any free port"},
           {":50051",
            "the host is missing: 127.0.0.1:50051 for this machine only, [::]:50051 or "
            "0.0.0.0:50051 for all addresses"},
           {"::1:5000", "an IPv6 address needs brackets, as in [::1]:5000"},
           {"127.0.0.1:-1", "the port \"-1\" is not a number"},
           {"127.0.0.1:65536", "the port 65536 is above 65535"},
           {"127.0.0.1:99999999999", "the port 99999999999 is above 65535"},
       }) {
    ProgramRun run = RunProgram(absl::StrCat("serve --listen '", bad.address, "'"));
    EXPECT_EQ(run.exit_code, kUsage);
    EXPECT_EQ(run.output, absl::StrCat("sparseagg serve: flag --listen: listen is \"", bad.address,
                                       "\" and must be HOST:PORT or unix:PATH: ", bad.why, "\n"));
    run = RunProgram(absl::StrCat("serve --admin-listen '", bad.address, "'"));
    EXPECT_EQ(run.exit_code, kUsage);
    EXPECT_THAT(run.output, HasSubstr("must be HOST:PORT or none: " + bad.why));
  }
  EXPECT_THAT(RunProgram("serve --listen unix:").output, HasSubstr("the path is missing"));
  const std::string long_path = "unix:/" + std::string(107, 'x');
  EXPECT_THAT(RunProgram("serve --listen " + long_path).output, HasSubstr("more than 107 bytes"));
}

TEST(ListenTest, TakesAddressesOfEveryKind) {
  for (const std::string address :
       {"127.0.0.1:0", "localhost:5000", "[::1]:5000", "unix:/tmp/x.sock", "unix-abstract:x"}) {
    const ProgramRun run = RunProgram("serve --check-config --listen '" + address + "'");
    EXPECT_EQ(run.exit_code, 0) << run.output;
  }
  EXPECT_EQ(RunProgram("serve --check-config --admin-listen none").exit_code, 0);
}

class CheckConfigTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string File(const std::string& name, const std::string& text) const {
    testing::ReplaceFile(Path(name), text);
    return Path(name);
  }
  static ProgramRun Check(const std::string& flags) {
    return RunProgram("serve --check-config " + flags);
  }
  // The last line, after the settings.
  static void ExpectRefused(const std::string& flags, const std::string& why) {
    const ProgramRun run = Check(flags);
    EXPECT_EQ(run.exit_code, kFailed) << flags;
    EXPECT_THAT(run.output, HasSubstr("listen = "));
    EXPECT_THAT(run.output, HasSubstr("\nsparseagg serve: "));
    EXPECT_THAT(run.output, HasSubstr(why));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CheckConfigTest, LeavesNothingBehind) {
  const ProgramRun run = Check(absl::StrCat("--data-dir ", Path("data"), " --port-file ",
                                            Path("port"), " --audit-log ", Path("audit")));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(CheckConfigTest, RefusesDataDirectoriesThatCannotBe) {
  const std::string file = File("file", "");
  ExpectRefused("--data-dir " + file,
                "cannot use the data directory " + file + ": Not a directory\n");
  ExpectRefused("--data-dir /nonexistent/data",
                "cannot use the data directory /nonexistent/data: No such file or directory\n");
  ExpectRefused("--data-dir /proc/data",
                "cannot use the data directory /proc/data: its file system cannot hold files");
}

// The operator does this before a restart.
TEST_F(CheckConfigTest, TakesWhatTheServerHasThatIsToBeReplaced) {
  testing::ServerProcess server({"--data-dir", Path("data")});
  ASSERT_NE(server.address(), "");
  const ProgramRun run =
      Check(absl::StrCat("--listen ", server.address(), " --data-dir ", Path("data")));
  EXPECT_EQ(run.exit_code, 0) << run.output;
}

TEST_F(CheckConfigTest, RefusesFilesOfTlsThatAreNotThereOrNotRight) {
  testing::CertificateAuthority authority("authority");
  const testing::PemPair pair = authority.Issue("a", "DNS:a");
  const std::string certificate = File("a.pem", pair.certificate);
  const std::string key = File("a.key", pair.key);
  EXPECT_EQ(Check("--tls-cert " + certificate + " --tls-key " + key).exit_code, 0);
  ExpectRefused("--tls-cert " + certificate + " --tls-key " + Path("none.key"),
                "cannot read " + Path("none.key") + ": No such file or directory");
  ExpectRefused("--tls-cert " + key + " --tls-key " + key, key + " has no certificate in PEM");
  ExpectRefused("--tls-cert " + certificate, "tls-cert and tls-key must both be set");
  ExpectRefused("--listen 0.0.0.0:5000", "other machines can reach 0.0.0.0:5000");
}

TEST_F(CheckConfigTest, RefusesOtherFilesThatCannotBeReadOrWritten) {
  ExpectRefused("--credentials " + Path("none"),
                "cannot read " + Path("none") + ": No such file or directory");
  ExpectRefused("--jwt-keys " + File("keys", "{}"), "jwt-keys needs jwt-issuer and jwt-audience");
  ExpectRefused("--audit-log /nonexistent/audit", "audit-log: cannot write /nonexistent/audit: ");
  ExpectRefused("--port-file /nonexistent/port", "port-file: cannot write /nonexistent/port: ");
  ExpectRefused("--admin-port-file " + folder_.path(), "it is a directory");
  ExpectRefused("--backend abacus", "backend is \"abacus\"; this program has auto, ");
}

TEST_F(CheckConfigTest, TellsAllThatIsWrong) {
  const ProgramRun run =
      Check("--backend abacus --port-file /nonexistent/port --data-dir /nonexistent/data");
  EXPECT_EQ(run.exit_code, kFailed);
  EXPECT_THAT(run.output, HasSubstr("sparseagg serve: backend is \"abacus\""));
  EXPECT_THAT(run.output, HasSubstr("sparseagg serve: port-file: cannot write"));
  EXPECT_THAT(run.output, HasSubstr("sparseagg serve: cannot use the data directory"));
}

// A variable that has no effect may be a misspelt setting.
TEST(EnvironmentTest, VariablesThatNobodyReadsAreWarnedOf) {
  setenv("SPARSEAGG_ROUND_MAX", "5", 1);
  setenv("SPARSEAGG_TOKEN_FILE", "/dev/null", 1);  // of the commands
  setenv("SPARSEAGG_SERVICE_HOST", "10.0.0.1", 1);
  const ProgramRun check = RunProgram("serve --check-config");
  testing::ServerProcess server;
  for (const char* name :
       {"SPARSEAGG_ROUND_MAX", "SPARSEAGG_TOKEN_FILE", "SPARSEAGG_SERVICE_HOST"}) {
    unsetenv(name);
  }
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_THAT(check.output, HasSubstr("warning: the environment variable SPARSEAGG_ROUND_MAX is "
                                      "not a setting and has no effect"));
  EXPECT_THAT(check.output, Not(HasSubstr("SPARSEAGG_TOKEN_FILE")));
  EXPECT_THAT(check.output, Not(HasSubstr("SPARSEAGG_SERVICE_HOST")));
  EXPECT_THAT(server.log(), HasSubstr("SPARSEAGG_ROUND_MAX"));
}

}  // namespace
}  // namespace sparseagg
