// The C++ client and a server with authentication, over TLS.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/transport/credentials.h"
#include "service/auth/authenticator.h"
#include "service/auth/token.h"
#include "tests/client/support.h"
#include "tests/service/rpc/test_server.h"
#include "tests/support/certificates.h"

namespace sparseagg::testing {
namespace {

using client::Client;
using client::ClientOptions;

const TensorSpec kVector{"t", ValueType::kF32, {10}, 1};

client::Update From(const std::string& contributor, const client::Tensor& tensor) {
  client::Update update;
  update.contributor = contributor;
  update.tensors = {tensor.view()};
  return update;
}

class ClientSecurityTest : public FolderTest {
 protected:
  ClientSecurityTest() {
    const PemPair server = authority_.Issue("server", "DNS:localhost,IP:127.0.0.1");
    WriteFile("authority", authority_.certificate());
    WriteFile("client authority", client_authority_.certificate());
    ServerSecurity security;
    security.tls = {.certificate = WriteFile("cert", server.certificate),
                    .key = WriteFile("key", server.key),
                    .client_authority = Path("client authority"),
                    .client_certificate_required = false};
    const std::string token_row =
        absl::StrCat(R"({"token_sha256": ")", ToHex(DigestOf("secret")),
                     R"(", "tenant": "acme", "principal": "fl", "roles": ["owner"]})");
    WriteFile("credentials",
              absl::StrCat(R"({"credentials": [)", token_row,
                           R"(, {"certificate": "dns:phone.example", "tenant": "acme",
                                 "principal": "phone", "roles": ["contributor"]}]})"));
    authenticator_ = Authenticator::Open({.credentials_file = Path("credentials")}).value();
    security.authenticator = authenticator_.get();
    round_.tensors = {kVector};
    server_ = std::make_unique<TestServer>(Limits(), "127.0.0.1:0", std::move(security));
  }

  ClientOptions Options() const {
    ClientOptions options;
    options.retry.attempts_max = 1;
    options.tls = client::TlsOptions{.authority_file = Path("authority")};
    return options;
  }
  std::unique_ptr<Client> Connect(ClientOptions options) const {
    return Client::Connect(server_->address(), std::move(options)).value();
  }

  const client::Tensor tensor_ = MakeTensor<float>(kVector, {3}, {0.5f});
  client::NewRound round_;
  CertificateAuthority authority_{"authority"};
  CertificateAuthority client_authority_{"client authority"};
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(ClientSecurityTest, ATokenIsReadForEveryCall) {
  ClientOptions options = Options();
  options.token = [this] { return client::ReadTokenFile(Path("token")); };
  const auto client = Connect(options);
  EXPECT_TRUE(HasError(client->ListRounds().status(), "FILE_UNREADABLE", "token"));
  WriteFile("token", "wrong\n");
  EXPECT_EQ(client->ListRounds().status().code(), absl::StatusCode::kUnauthenticated);
  WriteFile("token", "secret\n");
  EXPECT_TRUE(client->ListRounds().ok());
  const auto round = client->CreateRound(round_);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_TRUE(client->Submit(round->name, From("anybody", tensor_)).ok())
      << "an owner sends for others";
}

TEST_F(ClientSecurityTest, ATokenThatNoHeaderCanHoldIsRefusedUnshown) {
  for (const char* token : {"sec\nret", "\xEF\xBB\xBFsecret", "sec\tret", "secret\x7F"}) {
    ClientOptions options = Options();
    options.token = [token] { return std::string(token); };
    const absl::Status status = Connect(options)->ListRounds().status();
    EXPECT_TRUE(HasError(status, "TOKEN_INVALID", "printable ASCII")) << status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().find("sec"), std::string::npos);
  }
}

TEST_F(ClientSecurityTest, WithoutACredentialNothingIsAnswered) {
  EXPECT_EQ(Connect(Options())->ListRounds().status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(ClientSecurityTest, ACertificateSaysWhoSends) {
  ClientOptions owner_options = Options();
  owner_options.token = [] { return std::string("secret"); };
  const auto round = Connect(owner_options)->CreateRound(round_);
  ASSERT_TRUE(round.ok()) << round.status();
  const PemPair phone = client_authority_.Issue("phone", "DNS:phone.example");
  ClientOptions options = Options();
  options.tls->certificate_file = WriteFile("phone cert", phone.certificate);
  options.tls->key_file = WriteFile("phone key", phone.key);
  const auto client = Connect(options);
  EXPECT_TRUE(HasError(client->Submit(round->name, From("tablet", tensor_)).status(),
                       "CONTRIBUTOR_NOT_YOURS", "phone"));
  EXPECT_TRUE(client->Submit(round->name, From("phone", tensor_)).ok());
}

TEST_F(ClientSecurityTest, AServerOfAnotherAuthorityIsNotBelieved) {
  ClientOptions options = Options();
  options.tls->authority_file = Path("client authority");
  options.token = [] { return std::string("secret"); };
  EXPECT_EQ(Connect(options)->ListRounds().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ClientSecurityTest, AServerWithTlsThatIsCalledWithoutIsKnownAtOnce) {
  ClientOptions options;
  int retries = 0;
  options.on_retry = [&retries](const absl::Status&) { ++retries; };
  EXPECT_TRUE(HasError(Connect(options)->ListRounds().status(), "SERVER_WITH_TLS",
                       "cannot reach " + server_->address() + ": it speaks TLS; write https://"));
  EXPECT_EQ(retries, 0);
}

TEST_F(ClientSecurityTest, AMissingFileIsNamedAtOnce) {
  ClientOptions options = Options();
  options.tls->authority_file = Path("nowhere");
  EXPECT_TRUE(HasError(Client::Connect(server_->address(), options).status(), "FILE_UNREADABLE",
                       "nowhere"));
}

TEST(ClientTokenTest, ATokenInTheClearStaysOnThisMachine) {
  ClientOptions options;
  options.token = [] { return std::string("secret"); };
  for (const char* target : {"fl.example:7070", "10.0.0.1:7070", "127.evil.example:7070",
                             "localhost.evil.example:7070", "dns:///fl.example:7070"}) {
    EXPECT_TRUE(HasError(Client::Connect(target, options).status(), "TOKEN_NEEDS_TLS", "use TLS"))
        << target;
  }
  for (const char* target : {"127.0.0.1:7070", "127.1.2.3:7070", "localhost:7070", "[::1]:7070",
                             "unix:/run/sparseagg.sock"}) {
    EXPECT_TRUE(Client::Connect(target, options).ok()) << target;
  }
}

}  // namespace
}  // namespace sparseagg::testing
