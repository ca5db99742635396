// TLS over real sockets, with certificates made for the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/auth/token.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TlsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) { return folder_.path() + "/" + name; }
  void WriteServerCertificate(CertificateAuthority& authority) {
    const PemPair pair = authority.Issue("server", "DNS:localhost,IP:127.0.0.1");
    ReplaceFile(Path("key"), pair.key);
    ReplaceFile(Path("cert"), pair.certificate);
  }
  // Starts a TLS server. `rows` are those of the credentials file; empty: no authentication.
  void Start(const std::string& rows = "", bool ask_for_certificates = false,
             bool require_certificates = true) {
    WriteServerCertificate(authority_);
    ReplaceFile(Path("ca"), client_authority_.certificate());
    ServerSecurity security;
    security.tls = {.certificate = Path("cert"), .key = Path("key")};
    if (ask_for_certificates) security.tls.client_authority = Path("ca");
    security.tls.client_certificate_required = require_certificates;
    security.on_tls_reload = [this](const absl::Status& status) {
      const std::lock_guard lock(mutex_);
      told_.emplace_back(status.message());
    };
    if (!rows.empty()) {
      ReplaceFile(Path("credentials"), absl::StrCat("{\"credentials\": [", rows, "]}"));
      authenticator_ = Authenticator::Open({.credentials_file = Path("credentials")}).value();
      security.authenticator = authenticator_.get();
    }
    server_ = std::make_unique<TestServer>(Limits(), "127.0.0.1:0", std::move(security));
  }
  std::shared_ptr<grpc::Channel> Channel(const std::string& root, const PemPair& pair = {}) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const grpc::SslCredentialsOptions options{root, pair.key, pair.certificate};
    return grpc::CreateCustomChannel(server_->address(), grpc::SslCredentials(options), arguments);
  }
  absl::Status Info(const std::shared_ptr<grpc::Channel>& channel, const std::string& token = "") {
    const auto context = NewContext();
    context->set_wait_for_ready(false);  // a server that cannot be talked to is an error at once
    if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
    v1::ServerInfo info;
    return FromGrpc(
        v1::AggregationService::NewStub(channel)->GetServerInfo(context.get(), {}, &info));
  }
  // The reloads reported since the last call; "" for valid files.
  std::vector<std::string> Told() {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_, {});
  }

  TemporaryFolder folder_;
  CertificateAuthority authority_{"authority"};
  CertificateAuthority client_authority_{"client authority"};
  std::unique_ptr<Authenticator> authenticator_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::string> told_;
  std::unique_ptr<TestServer> server_;  // last: reports to the others
};

TEST_F(TlsTest, ServesClientsThatTrustItsCaAndNoneInPlaintext) {
  Start();
  EXPECT_TRUE(Info(Channel(authority_.certificate())).ok());
  EXPECT_EQ(Info(Channel(client_authority_.certificate())).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Info(NewChannel(server_->address())).code(), absl::StatusCode::kUnavailable);
}

TEST_F(TlsTest, AnUpdateOfMegabytesArrivesWhole) {
  Start();
  TestClient client(Channel(authority_.certificate()));
  const auto round = client.Create(VectorRound("t", 2'000'000));
  ASSERT_TRUE(round.ok()) << round.status();
  std::vector<int64_t> rows(500'000);
  std::vector<float> values(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<int64_t>(3 * i);
    values[i] = static_cast<float>(i);
  }
  const auto receipt =
      client.Submit(VectorUpdate(round->name(), "c", VectorEntries("t", 2'000'000, rows, values)));
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  ASSERT_TRUE(client.Publish(round->name()).ok());
  const auto answer = client.Aggregate(round->name());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(ArrayOf<float>(answer->values()), values);
}

TEST_F(TlsTest, NewCertificatesAreTakenWithoutARestart) {
  Start("", /*ask_for_certificates=*/true);
  const PemPair client = client_authority_.Issue("c", "");
  const auto before = Channel(authority_.certificate(), client);
  ASSERT_TRUE(Info(before).ok());

  CertificateAuthority next_authority("next authority");
  WriteServerCertificate(next_authority);
  EXPECT_TRUE(Info(Channel(next_authority.certificate(), client)).ok());
  EXPECT_TRUE(Info(before).ok()) << "a connection that is there goes on";

  CertificateAuthority next_client_authority("next client authority");
  ReplaceFile(Path("ca"), next_client_authority.certificate());
  EXPECT_TRUE(
      Info(Channel(next_authority.certificate(), next_client_authority.Issue("c", ""))).ok());
  EXPECT_EQ(Info(Channel(next_authority.certificate(), client)).code(),
            absl::StatusCode::kUnavailable)
      << "the old authority is not believed any more";
  EXPECT_THAT(Told(), ElementsAre("", ""));
}

TEST_F(TlsTest, AnInvalidFileChangesNothingAndIsReportedOnceUntilItIsRepaired) {
  Start("", /*ask_for_certificates=*/true);
  const PemPair client = client_authority_.Issue("c", "");
  const PemPair other = authority_.Issue("server", "DNS:localhost,IP:127.0.0.1");
  struct Fault {
    std::function<void()> happen;
    std::string told;
  };
  const Fault faults[] = {
      {[&] { std::ofstream(Path("cert"), std::ios::trunc); }, "/cert has no certificate"},
      {[&] { ReplaceFile(Path("key"), "garbage"); }, "/key has no private key"},
      {[&] { ReplaceFile(Path("key"), other.key); }, "/key does not belong to the certificate in"},
      {[&] { std::filesystem::remove(Path("ca")); }, "/ca: No such file"},
  };
  std::string root = authority_.certificate();
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.told);
    fault.happen();
    EXPECT_TRUE(Info(Channel(root, client)).ok());
    EXPECT_TRUE(Info(Channel(root, client)).ok());
    EXPECT_THAT(Told(), ElementsAre(HasSubstr(fault.told)));
    CertificateAuthority next_authority("next authority");
    WriteServerCertificate(next_authority);
    ReplaceFile(Path("ca"), client_authority_.certificate());
    root = next_authority.certificate();
    EXPECT_TRUE(Info(Channel(root, client)).ok());
    EXPECT_THAT(Told(), ElementsAre(""));
  }
}

TEST_F(TlsTest, AClientCertificateSaysWhoCalls) {
  Start(R"({"certificate": "dns:*.phones.example", "principal": "*", "tenant": "acme",
            "roles": ["contributor"]},
           {"certificate": "uri:spiffe://acme/server", "principal": "server", "tenant": "acme",
            "roles": ["owner"]},
           {"certificate": "cn:observer", "principal": "o", "tenant": "acme",
            "roles": ["reader"]})",
        /*ask_for_certificates=*/true);
  const auto client = [&](const std::string& name, const std::string& alternative_names) {
    return TestClient(
        Channel(authority_.certificate(), client_authority_.Issue(name, alternative_names)));
  };
  TestClient server = client("x", "DNS:other.example,URI:spiffe://acme/server");
  const auto round = server.Create(VectorRound("t", 10));
  ASSERT_TRUE(round.ok()) << round.status();
  TestClient phone = client("observer-not", "DNS:p1.phones.example");
  const auto update = [&](const std::string& contributor) {
    return VectorUpdate(round->name(), contributor, VectorEntries("t", 10, {1}, {1.0f}));
  };
  EXPECT_EQ(ErrorReason(phone.Submit(update("p2")).status()), "CONTRIBUTOR_NOT_YOURS");
  EXPECT_TRUE(phone.Submit(update("p1")).ok());
  EXPECT_EQ(ErrorReason(phone.Seal(round->name()).status()), "ROLE_MISSING");
  EXPECT_TRUE(client("observer", "").Get(round->name()).ok());
  const absl::Status stranger = client("stranger", "DNS:a.example").Get(round->name()).status();
  EXPECT_EQ(stranger.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ErrorReason(stranger), "CERTIFICATE_UNKNOWN");
  EXPECT_THAT(std::string(stranger.message()), HasSubstr("dns:a.example, cn:stranger"));
}

TEST_F(TlsTest, RefusesTheHandshakeWithoutACertificateItCanVerify) {
  Start("", /*ask_for_certificates=*/true);
  CertificateAuthority stranger("stranger");
  EXPECT_EQ(Info(Channel(authority_.certificate())).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Info(Channel(authority_.certificate(), stranger.Issue("c", ""))).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Info(Channel(authority_.certificate(), client_authority_.Issue("c", "", -60))).code(),
            absl::StatusCode::kUnavailable)
      << "it has expired";
  EXPECT_TRUE(Info(Channel(authority_.certificate(), client_authority_.Issue("c", ""))).ok());
}

TEST_F(TlsTest, ACertificateMayBeOptionalBesideTokens) {
  Start(absl::StrCat("{\"token_sha256\": \"", ToHex(DigestOf("secret")),
                     R"(", "principal": "p", "tenant": "acme", "roles": ["reader"]},
                     {"certificate": "cn:c", "principal": "c", "tenant": "acme",
                      "roles": ["reader"]})"),
        /*ask_for_certificates=*/true, /*require_certificates=*/false);
  EXPECT_TRUE(Info(Channel(authority_.certificate()), "secret").ok());
  EXPECT_TRUE(Info(Channel(authority_.certificate(), client_authority_.Issue("c", ""))).ok());
  EXPECT_EQ(ErrorReason(Info(Channel(authority_.certificate()))), "CREDENTIALS_MISSING");
  CertificateAuthority stranger("stranger");
  EXPECT_EQ(Info(Channel(authority_.certificate(), stranger.Issue("c", ""))).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace sparseagg::testing
