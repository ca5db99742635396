#include "service/rpc/call_authoriser.h"

#include <grpc/grpc_security_constants.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/auth/authorisation.h"
#include "service/engine/names.h"
#include "service/rpc/local/forwarded_caller.h"

namespace sparseagg {
namespace {

// The caller of every call in a server without authentication.
Caller AnonymousCaller() {
  return {.tenant = std::string(kDefaultTenant), .principal = "anonymous", .roles = RoleSet::All()};
}

// The names in the client's certificate, which TLS has verified: the handshake fails with any
// other.
std::vector<std::string> CertificateNames(const grpc::AuthContext& peer) {
  struct Kind {
    const char* property;
    const char* prefix;
  };
  constexpr Kind kKinds[] = {{GRPC_PEER_DNS_PROPERTY_NAME, "dns:"},
                             {GRPC_PEER_URI_PROPERTY_NAME, "uri:"},
                             {GRPC_PEER_EMAIL_PROPERTY_NAME, "email:"},
                             {GRPC_PEER_IP_PROPERTY_NAME, "ip:"},
                             {GRPC_X509_CN_PROPERTY_NAME, "cn:"}};
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    for (const grpc::string_ref& value : peer.FindPropertyValues(kind.property)) {
      names.push_back(absl::StrCat(kind.prefix, std::string(value.data(), value.size())));
    }
  }
  return names;
}

// The address of the caller, for the audit log.
std::string PeerOf(const grpc::CallbackServerContext& context) {
  auto forwarded = ReadForwardedCaller(context);
  return forwarded.has_value() ? std::move(forwarded->peer) : context.peer();
}

}  // namespace

absl::Status AuthorisedCall::CheckContributor(std::string_view round,
                                              std::string_view contributor) const {
  absl::Status status = AuthoriseContributor(caller, contributor);
  if (status.ok()) return status;
  if (holds_task != nullptr && holds_task(round, contributor)) return absl::OkStatus();
  on_refused(status);
  return status;
}

absl::Status AuthorisedCall::CheckWorker(std::string_view worker) const {
  absl::Status status = AuthoriseWorker(caller, worker);
  if (!status.ok()) on_refused(status);
  return status;
}

absl::Status AuthorisedCall::CheckBody(bool is_partial) const {
  if (!is_partial) return absl::OkStatus();
  absl::Status status = Authorise(caller, "SubmitPartial");
  if (!status.ok()) on_refused(status);
  return status;
}

CallAuthoriser::CallAuthoriser(Engine& engine, ServerSecurity security)
    : security_(std::move(security)), engines_(engine) {}

absl::StatusOr<Caller> CallAuthoriser::CallerOf(const grpc::CallbackServerContext& context) const {
  if (security_.authenticator == nullptr) return AnonymousCaller();
  PresentedCredentials presented;
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  for (auto header = begin; header != end; ++header) {
    presented.authorization.emplace_back(header->second.data(), header->second.size());
  }
  if (auto forwarded = ReadForwardedCaller(context); forwarded.has_value()) {
    presented.certificate_names = std::move(forwarded->certificate_names);
  } else if (const auto peer = context.auth_context(); peer != nullptr) {
    presented.certificate_names = CertificateNames(*peer);
  }
  return security_.authenticator->Authenticate(presented);
}

absl::StatusOr<AuthorisedCall> CallAuthoriser::Authorise(const grpc::CallbackServerContext& context,
                                                         std::string_view rpc) {
  absl::StatusOr<Caller> caller = CallerOf(context);
  const absl::Status status = caller.ok() ? sparseagg::Authorise(*caller, rpc) : caller.status();
  if (!status.ok()) {
    security_.on_refused(rpc, PeerOf(context), status);
    return status;
  }
  Engine& engine = engines_.Of(caller->tenant);
  std::function<bool(std::string_view, std::string_view)> holds_task;
  if (caller->roles.Has(Role::kWorker) && !caller->roles.Has(Role::kOwner)) {
    holds_task = [this, tenant = caller->tenant, principal = caller->principal](
                     std::string_view round, std::string_view contributor) {
      return security_.holds_task(tenant, principal, round, contributor);
    };
  }
  return AuthorisedCall{.caller = *std::move(caller),
                        .engine = &engine,
                        .place = nullptr,
                        .on_refused =
                            [this, rpc, &context](const absl::Status& why) {
                              security_.on_refused(rpc, PeerOf(context), why);
                            },
                        .holds_task = std::move(holds_task)};
}

absl::StatusOr<AuthorisedCall> CallAuthoriser::AuthoriseStream(
    const grpc::CallbackServerContext& context, std::string_view rpc) {
  SPARSEAGG_ASSIGN_OR_RETURN(AuthorisedCall call, Authorise(context, rpc));
  SPARSEAGG_RETURN_IF_ERROR(TakePlace(streams_, call));
  return call;
}

absl::StatusOr<AuthorisedCall> CallAuthoriser::AuthoriseWait(
    const grpc::CallbackServerContext& context, std::string_view rpc) {
  SPARSEAGG_ASSIGN_OR_RETURN(AuthorisedCall call, Authorise(context, rpc));
  SPARSEAGG_RETURN_IF_ERROR(TakePlace(waits_, call));
  return call;
}

absl::Status CallAuthoriser::TakePlace(Places& places, AuthorisedCall& call) {
  constexpr uint64_t kRetryAfterMs = 1000;  // until another call of the tenant may have ended
  const std::string& tenant = call.caller.tenant;
  const uint64_t most = security_.limits_of(tenant).*places.most;
  const std::lock_guard lock(mutex_);
  uint64_t& taken = places.taken[tenant];
  if (most > 0 && taken >= most) {
    return WithRetryAfter(
        MakeError(
            absl::StatusCode::kResourceExhausted, std::string(places.reason),
            absl::StrCat(std::string(places.setting), " = ", most, " ", std::string(places.what),
                         " of tenant \"", tenant, "\" are in progress; try again")),
        kRetryAfterMs);
  }
  ++taken;
  call.place = std::shared_ptr<void>(this, [this, &taken](void*) {
    const std::lock_guard lock(mutex_);
    --taken;
  });
  return absl::OkStatus();
}

}  // namespace sparseagg
