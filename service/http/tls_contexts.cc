#include "service/http/tls_contexts.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

namespace ssl = boost::asio::ssl;

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

// The only protocol that is spoken here; a client that offers none of ALPN is served, too.
int SelectHttp1(SSL*, const unsigned char** out, unsigned char* out_bytes,
                const unsigned char* offered, unsigned int offered_bytes, void*) {
  static constexpr unsigned char kHttp1[] = "\x08http/1.1";
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_bytes, kHttp1, sizeof(kHttp1) - 1, offered,
                            offered_bytes) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

absl::StatusOr<std::shared_ptr<ssl::context>> MakeContext(const TlsTexts& texts, bool requests,
                                                          bool requires_one) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  boost::system::error_code error;
  const auto check = [&error](const char* what) {
    if (!error) return absl::OkStatus();
    return MakeError(absl::StatusCode::kInvalidArgument, "TLS_FILES_INVALID",
                     absl::StrCat(what, ": ", error.message()));
  };
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // A resumed session would keep a client certificate that is no longer accepted.
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);  // idle connections keep none
  SSL_CTX_set_alpn_select_cb(native, &SelectHttp1, nullptr);
  context->use_certificate_chain(boost::asio::buffer(texts.certificate), error);
  SPARSEAGG_RETURN_IF_ERROR(check("tls-cert"));
  context->use_private_key(boost::asio::buffer(texts.key), ssl::context::pem, error);
  SPARSEAGG_RETURN_IF_ERROR(check("tls-key"));
  if (!requests) return context;
  context->add_certificate_authority(boost::asio::buffer(texts.client_authority), error);
  SPARSEAGG_RETURN_IF_ERROR(check("tls-client-ca"));
  context->set_verify_mode(
      requires_one ? ssl::verify_peer | ssl::verify_fail_if_no_peer_cert : ssl::verify_peer, error);
  SPARSEAGG_RETURN_IF_ERROR(check("tls-client-ca"));
  return context;
}

std::string_view TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

// Returns "" for a kind that has no prefix.
std::string NameOf(const GENERAL_NAME& name) {
  switch (name.type) {
    case GEN_DNS:
      return absl::StrCat("dns:", std::string(TextOf(name.d.dNSName)));
    case GEN_URI:
      return absl::StrCat("uri:", std::string(TextOf(name.d.uniformResourceIdentifier)));
    case GEN_EMAIL:
      return absl::StrCat("email:", std::string(TextOf(name.d.rfc822Name)));
    case GEN_IPADD: {
      constexpr size_t kIpv4Bytes = 4;
      constexpr size_t kIpv6Bytes = 16;
      const std::string_view bytes = TextOf(name.d.iPAddress);
      if (bytes.size() != kIpv4Bytes && bytes.size() != kIpv6Bytes) return "";
      std::array<char, INET6_ADDRSTRLEN> text = {};
      const int family = bytes.size() == kIpv4Bytes ? AF_INET : AF_INET6;
      if (inet_ntop(family, bytes.data(), text.data(), text.size()) == nullptr) return "";
      return absl::StrCat("ip:", text.data());
    }
    default:
      return "";
  }
}

}  // namespace

TlsContexts::TlsContexts(const TlsFiles& files)
    : files_(files),
      requests_certificate_(!files.client_authority.empty()),
      requires_certificate_(files.client_certificate_required) {}

absl::StatusOr<std::shared_ptr<ssl::context>> TlsContexts::Current() {
  absl::Status status;
  if (const auto texts = files_.ReadIfChanged(); !texts.ok()) {
    status = texts.status();
  } else if (texts->has_value()) {
    auto made = MakeContext(**texts, requests_certificate_, requires_certificate_);
    status = made.status();
    if (made.ok()) current_ = *std::move(made);
  }
  if (current_ == nullptr) return status;
  return current_;
}

std::vector<std::string> PeerCertificateNames(SSL* connection) {
  std::vector<std::string> names;
  const std::unique_ptr<X509, FreeCertificate> certificate(SSL_get1_peer_certificate(connection));
  if (certificate == nullptr) return names;
  const std::unique_ptr<GENERAL_NAMES, FreeNames> alternatives(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives.get()); ++i) {
    std::string name = NameOf(*sk_GENERAL_NAME_value(alternatives.get(), i));
    if (!name.empty()) names.push_back(std::move(name));
  }
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  if (const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1); at >= 0) {
    const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    unsigned char* utf8 = nullptr;
    const int bytes = ASN1_STRING_to_UTF8(&utf8, text);
    if (bytes >= 0) {
      names.push_back(absl::StrCat(
          "cn:", std::string(reinterpret_cast<const char*>(utf8), static_cast<size_t>(bytes))));
      OPENSSL_free(utf8);
    }
  }
  return names;
}

}  // namespace sparseagg
