// If a TLS connection cannot be made, the command prints one line that says what is wrong and which
// flag helps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/server_process.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::ServerProcess;
using ::testing::StartsWith;

constexpr int kCannotConnect = 3;

class TlsMessagesTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    testing::ReplaceFile(path, text);
    return path;
  }

  // Returns the arguments of a server with a certificate for this name.
  std::vector<std::string> WithCertificate(const std::string& alternative_name) {
    const testing::PemPair pair = authority_.Issue("server", alternative_name);
    return {"--tls-cert", File("server.pem", pair.certificate), "--tls-key",
            File("server.key", pair.key)};
  }

  // Runs `info`, which must fail, and returns the line that it prints.
  static std::string Error(const ServerProcess& server, const std::string& flags,
                           int code = kCannotConnect) {
    const testing::ProgramRun run =
        testing::RunProgram("info --attempts 2 --server " + server.address() + " " + flags);
    EXPECT_EQ(run.exit_code, code) << run.output;
    EXPECT_EQ(run.output.find('\n'), run.output.size() - 1) << "one line: " << run.output;
    return run.output;
  }

  static auto Says(const ServerProcess& server, const std::string& what, const std::string& hint) {
    return AllOf(StartsWith("sparseagg: cannot reach " + server.address() + ": " + what + "; "),
                 EndsWith(hint + "\n"));
  }

  testing::TemporaryFolder folder_;
  testing::CertificateAuthority authority_{"authority"};
  testing::CertificateAuthority stranger_{"stranger"};
  const std::string trust_ = "--tls-ca " + File("authority.pem", authority_.certificate());
};

TEST_F(TlsMessagesTest, PlaintextToAServerWithTls) {
  const ServerProcess server(WithCertificate("IP:127.0.0.1"));
  EXPECT_THAT(Error(server, ""), Says(server, "it speaks TLS; write https://",
                                      "give the file of its CA with --tls-ca"));
  EXPECT_EQ(testing::RunProgram("info " + trust_ + " --server " + server.address()).exit_code, 0);
}

TEST_F(TlsMessagesTest, TlsToAServerWithoutIt) {
  const ServerProcess server;
  EXPECT_THAT(Error(server, trust_), Says(server, "it does not speak TLS",
                                          "leave out --tls, --tls-ca and SPARSEAGG_SERVER_CA"));
}

TEST_F(TlsMessagesTest, AnAuthorityThatTheClientDoesNotTrust) {
  const ServerProcess server(WithCertificate("IP:127.0.0.1"));
  const std::string other = "--tls-ca " + File("stranger.pem", stranger_.certificate());
  for (const std::string& flags : {other, std::string("--tls")}) {
    EXPECT_THAT(
        Error(server, flags),
        Says(server,
             "no authority that is trusted here has signed its certificate, or that is over",
             "give the file of its CA with --tls-ca"));
  }
}

TEST_F(TlsMessagesTest, ACertificateForAnotherName) {
  const ServerProcess server(WithCertificate("DNS:other.example"));
  EXPECT_THAT(Error(server, trust_), Says(server, "its certificate is for another name",
                                          "give --server a name that its certificate has"));
}

TEST_F(TlsMessagesTest, AServerThatAsksForCertificates) {
  std::vector<std::string> arguments = WithCertificate("IP:127.0.0.1");
  arguments.insert(arguments.end(),
                   {"--tls-client-ca", File("clients.pem", authority_.certificate())});
  const ServerProcess server(arguments);
  const testing::PemPair strange = stranger_.Issue("client", "DNS:client");
  const std::string identity = " --tls-cert " + File("strange.pem", strange.certificate) +
                               " --tls-key " + File("strange.key", strange.key);
  for (const std::string& flags : {trust_, trust_ + identity}) {
    EXPECT_THAT(Error(server, flags), Says(server, "it closes the connection", "--tls-key"));
  }
}

TEST_F(TlsMessagesTest, FilesThatAreNoneOrDoNotBelongTogether) {
  const ServerProcess server(WithCertificate("IP:127.0.0.1"));
  const testing::PemPair a = authority_.Issue("a", "DNS:a");
  const testing::PemPair b = authority_.Issue("b", "DNS:b");
  const std::string certificate = File("a.pem", a.certificate);
  const std::string key = File("b.key", b.key);
  EXPECT_THAT(Error(server, "--tls-ca " + key, 1), HasSubstr(key + " has no certificate in PEM"));
  EXPECT_THAT(
      Error(server, trust_ + " --tls-cert " + certificate + " --tls-key " + key, 1),
      HasSubstr("the key in " + key + " does not belong to the certificate in " + certificate));
  EXPECT_THAT(Error(server, trust_ + " --tls-cert " + certificate, 2),
              HasSubstr("--tls-cert requires --tls-key"));
}

TEST_F(TlsMessagesTest, AFileOfTheServerThatBreaksIsNamedInItsLogs) {
  std::vector<std::string> arguments = WithCertificate("IP:127.0.0.1");
  const std::string audit_log = folder_.path() + "/audit.log";
  arguments.insert(arguments.end(), {"--audit-log", audit_log});
  ServerProcess server(arguments);
  File("server.key", "garbage");
  const testing::ProgramRun run =
      testing::RunProgram("info " + trust_ + " --server " + server.address());
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(server.WaitForLog("server.key has no private key"));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  std::ostringstream audit;
  audit << std::ifstream(audit_log).rdbuf();
  EXPECT_THAT(audit.str(), HasSubstr("credentials_not_read"));
}

}  // namespace
}  // namespace sparseagg
