#include "service/auth/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::CertificateAuthority;
using ::testing::HasSubstr;
using testing::PemPair;

class TlsFilesTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    testing::ReplaceFile(path, text);
    return path;
  }
  void ExpectInvalid(const TlsFiles& files, const std::string& message) {
    const absl::Status status = CheckTlsFiles(files);
    EXPECT_EQ(ErrorReason(status), "TLS_FILES_INVALID") << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  testing::TemporaryFolder folder_;
  CertificateAuthority authority_{"ca"};
  const PemPair server_ = authority_.Issue("server", "DNS:localhost");
  const std::string certificate_ = File("cert", server_.certificate);
  const std::string key_ = File("key", server_.key);
  const std::string ca_ = File("ca", authority_.certificate());
};

TEST_F(TlsFilesTest, AcceptsFilesThatBelongTogether) {
  EXPECT_TRUE(CheckTlsFiles({}).ok());
  EXPECT_TRUE(CheckTlsFiles({.certificate = certificate_, .key = key_}).ok());
  const absl::Status with_clients =
      CheckTlsFiles({.certificate = certificate_, .key = key_, .client_authority = ca_});
  EXPECT_TRUE(with_clients.ok()) << with_clients;
}

TEST_F(TlsFilesTest, SaysWhichFileIsMissing) {
  ExpectInvalid({.certificate = certificate_}, "tls-key");
  ExpectInvalid({.key = key_}, "tls-cert");
  ExpectInvalid({.client_authority = ca_}, "tls-client-ca needs tls-cert");
  ExpectInvalid({.certificate = "/no/cert", .key = key_}, "/no/cert");
  ExpectInvalid({.certificate = certificate_, .key = "/no/key"}, "/no/key");
  ExpectInvalid({.certificate = certificate_, .key = key_, .client_authority = "/no/ca"}, "/no/ca");
}

TEST_F(TlsFilesTest, SaysWhichFileIsWrong) {
  ExpectInvalid({.certificate = File("x", "garbage"), .key = key_}, "/x has no certificate");
  ExpectInvalid({.certificate = key_, .key = key_}, "/key has no certificate");
  ExpectInvalid({.certificate = certificate_, .key = certificate_}, "/cert has no private key");
  ExpectInvalid({.certificate = certificate_, .key = key_, .client_authority = File("y", "")},
                "/y has no certificate");
  const PemPair other = authority_.Issue("other", "DNS:localhost");
  ExpectInvalid({.certificate = certificate_, .key = File("other", other.key)}, "does not belong");
  const PemPair old = authority_.Issue("old", "DNS:localhost", /*valid_seconds=*/-60);
  ExpectInvalid({.certificate = File("old", old.certificate), .key = File("old_key", old.key)},
                "expired");
}

TEST_F(TlsFilesTest, AreReadAgainWhenOneIsReplacedOrRepaired) {
  WatchedTlsFiles files({.certificate = certificate_, .key = key_, .client_authority = ca_});
  EXPECT_EQ((*files.ReadIfChanged())->certificate, server_.certificate);
  EXPECT_FALSE(files.ReadIfChanged()->has_value());
  const PemPair other = authority_.Issue("other", "DNS:localhost");
  File("key", other.key);
  EXPECT_EQ(ErrorReason(files.ReadIfChanged().status()), "TLS_FILES_INVALID");
  File("cert", other.certificate);
  const auto texts = files.ReadIfChanged();
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_EQ((*texts)->certificate, other.certificate);
  EXPECT_EQ((*texts)->key, other.key);
  EXPECT_EQ((*texts)->client_authority, authority_.certificate());
  EXPECT_FALSE(files.ReadIfChanged()->has_value());
}

}  // namespace
}  // namespace sparseagg
