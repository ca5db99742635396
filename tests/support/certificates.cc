#include "tests/support/certificates.h"

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <fstream>

namespace sparseagg::testing {
namespace {

void SetName(X509_NAME* name, const std::string& common_name) {
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
}

void Extend(X509* certificate, int extension, const std::string& value) {
  X509_EXTENSION* made = X509V3_EXT_conf_nid(nullptr, nullptr, extension, value.c_str());
  ASSERT_NE(made, nullptr) << value;
  X509_add_ext(certificate, made, -1);
  X509_EXTENSION_free(made);
}

// Makes a certificate without issuer and signature.
std::shared_ptr<X509> NewCertificate(const std::string& common_name, EVP_PKEY* key, long serial,
                                     long valid_seconds) {
  const std::shared_ptr<X509> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), valid_seconds);
  X509_set_pubkey(certificate.get(), key);
  SetName(X509_get_subject_name(certificate.get()), common_name);
  return certificate;
}

template <typename Write>
std::string Pem(Write write) {
  BIO* file = BIO_new(BIO_s_mem());
  EXPECT_EQ(write(file), 1);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(file, &text);
  std::string pem(text, static_cast<size_t>(bytes));
  BIO_free(file);
  return pem;
}

PemPair PemOf(X509* certificate, EVP_PKEY* key) {
  return {Pem([&](BIO* file) { return PEM_write_bio_X509(file, certificate); }), Pem([&](BIO* f) {
            return PEM_write_bio_PrivateKey(f, key, nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

std::shared_ptr<EVP_PKEY> NewKey() {
  return {EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), EVP_PKEY_free};
}

}  // namespace

CertificateAuthority::CertificateAuthority(const std::string& name)
    : certificate_(nullptr), key_(NewKey()) {
  certificate_ = NewCertificate(name, key_.get(), serial_, 86400);
  X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
  Extend(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
  EXPECT_NE(X509_sign(certificate_.get(), key_.get(), EVP_sha256()), 0);
  pem_ = PemOf(certificate_.get(), key_.get());
}

PemPair CertificateAuthority::Issue(const std::string& common_name,
                                    const std::string& alternative_names, long valid_seconds) {
  const auto key = NewKey();
  const auto certificate = NewCertificate(common_name, key.get(), ++serial_, valid_seconds);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
  if (!alternative_names.empty()) {
    Extend(certificate.get(), NID_subject_alt_name, alternative_names);
  }
  EXPECT_NE(X509_sign(certificate.get(), key_.get(), EVP_sha256()), 0);
  return PemOf(certificate.get(), key.get());
}

void ReplaceFile(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

}  // namespace sparseagg::testing
