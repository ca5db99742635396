#include "client/cli/command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/task_connection.h"
#include "client/cli/tensor_spec.h"
#include "client/io/file_error.h"
#include "client/transport/credentials.h"
#include "nlohmann/json.hpp"

namespace sparseagg::cli {
namespace {

struct Hint {
  const char* reason;
  const char* text;
};

// What to do about errors of the client library and the server, whose messages cannot name flags.
constexpr Hint kHints[] = {
    {"CANNOT_CONNECT", "start it with `sparseagg serve` or give --server"},
    {"CONNECTION_LOST", "run the command again; nothing is counted twice"},
    {"CONNECTION_CLOSED",
     "if the server uses TLS, give --tls-ca (or --tls); if it requires client certificates, also "
     "--tls-cert and --tls-key"},
    {"SERVER_NOT_TRUSTED", "give the file of its CA with --tls-ca"},
    {"SERVER_HAS_OTHER_NAME", "give --server a name that its certificate has"},
    {"SERVER_WITH_TLS", "give the file of its CA with --tls-ca"},
    {"SERVER_WITHOUT_TLS", "leave out --tls, --tls-ca and SPARSEAGG_SERVER_CA"},
    {"CREDENTIALS_MISSING", "give a file with a token with --token-file"},
    {"TASK_NOT_FOUND", "`sparseagg task list` lists the tasks"},
    {"TASK_GROUP_NOT_FOUND", "`sparseagg task list` lists the tasks"},
};

// Replaces every control character by a blank, so that text of a server or a file cannot break the
// line.
std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return text;
}

void PrintError(const absl::Status& status, bool json) {
  std::string line = absl::StrCat("sparseagg: ", ErrorLine(status));
  if (json) {
    const nlohmann::json error = {{"error",
                                   {{"code", std::string(absl::StatusCodeToString(status.code()))},
                                    {"reason", ErrorReason(status)},
                                    {"message", ErrorLine(status)},
                                    {"retry_after_ms", RetryAfterMs(status)},
                                    {"exit_code", ExitCodeOf(status)}}}};
    line = error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::fprintf(stderr, "%s\n", line.c_str());
}

// The status that `body` returns, or an exception of it as a status.
absl::Status Outcome(const std::function<absl::Status()>& body) {
  try {
    const absl::Status status = body();
    if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
      return client::FileUnusable("standard output", "cannot be written");
    }
    return status;
  } catch (const nlohmann::json::exception& error) {
    return MakeError(absl::StatusCode::kInternal, "PROTOCOL_ERROR",
                     absl::StrCat("the server's answer has an unexpected form: ", error.what()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("there is not enough memory for this command");
  }
}

}  // namespace

CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& description) {
  return command.add_option(name, values, description)->allow_extra_args(false);
}

// The help does not show --token, because other users of the machine can see command lines.
void AddCredentialFlags(CLI::App& command, CommonFlags& flags) {
  command.add_flag("--tls", flags.tls, "Connect with TLS, and trust the CAs of this system");
  const auto file = [&](const char* name, std::string& path, const char* variable,
                        const char* help) {
    return command.add_option(name, path, help)->envname(variable);
  };
  file("--tls-ca", flags.tls_files.authority_file, "SPARSEAGG_SERVER_CA",
       "File with the CA of the server's certificate (PEM); implies --tls");
  CLI::Option* certificate =
      file("--tls-cert", flags.tls_files.certificate_file, "SPARSEAGG_CLIENT_CERT",
           "File with the client's certificate (PEM); implies --tls");
  CLI::Option* key = file("--tls-key", flags.tls_files.key_file, "SPARSEAGG_CLIENT_KEY",
                          "File with the private key of --tls-cert (PEM)");
  certificate->needs(key);
  key->needs(certificate);
  file("--token-file", flags.token_file, "SPARSEAGG_TOKEN_FILE",
       "File with the bearer token, read before every call; or set the variable SPARSEAGG_TOKEN to "
       "the token");
  command.add_option("--token", flags.token)->envname("SPARSEAGG_TOKEN")->group("");
}

void AddJsonFlag(CLI::App& command, CommonFlags& flags) {
  command.add_flag("--json", flags.json, "Print results and errors as JSON");
}

std::vector<const CLI::Option*> AddCommonFlags(CLI::App& command, CommonFlags& flags) {
  AddJsonFlag(command, flags);
  const auto before = static_cast<ptrdiff_t>(command.get_options().size());
  command.add_option("--server", flags.server, "Address of the server, HOST:PORT")
      ->check(IsAddress)
      ->envname("SPARSEAGG_SERVER")
      ->capture_default_str();
  command
      .add_option(
          "--timeout", flags.timeout_s,
          "Seconds that a call may take with all its attempts (0: 30, or 3600 for transfers)")
      ->check(NumberIn(0, 1e6));
  command
      .add_option("--attempts", flags.attempts,
                  "Attempts of a call that finds no server (default: 5, or as many as --timeout "
                  "allows); 1: no call is repeated")
      ->check(CLI::Range(1u, 1000u));
  AddCredentialFlags(command, flags);
  const std::vector<CLI::Option*> options = command.get_options();
  return {options.begin() + before, options.end()};
}

absl::Status CheckExcluded(const CLI::App& command, const std::vector<const CLI::Option*>& options,
                           const std::string& flag) {
  for (const CLI::Option* given : command.parse_order()) {
    if (std::find(options.begin(), options.end(), given) != options.end()) {
      return BadArgument(
          absl::StrCat(flag, " cannot be combined with --", given->get_lnames().front()));
    }
  }
  return absl::OkStatus();
}

uint64_t WaitFlags::timeout_ms() const {
  return static_cast<uint64_t>(std::ceil(timeout_s * 1000));
}

void AddWaitFlags(CLI::App& command, WaitFlags& flags) {
  CLI::Option* wait = command.add_flag("--wait", flags.wait, "Wait until the result is published");
  command.add_option("--wait-timeout", flags.timeout_s, "Seconds to wait (0: no limit)")
      ->check(NumberIn(0, 1e7))
      ->needs(wait);
}

namespace {

client::ClientOptions OptionsOf(const CommonFlags& flags) {
  client::ClientOptions options;
  const client::TlsOptions& files = flags.tls_files;
  if (flags.tls || !files.authority_file.empty() || !files.certificate_file.empty() ||
      !files.key_file.empty()) {
    options.tls = files;
  }
  if (!flags.token_file.empty()) {
    options.token = [path = flags.token_file] { return client::ReadTokenFile(path); };
  } else if (!flags.token.empty()) {
    options.token = [token = flags.token] { return token; };
  }
  if (flags.timeout_s > 0) {
    options.call_timeout_ms = static_cast<uint64_t>(std::ceil(flags.timeout_s * 1000));
    options.transfer_timeout_ms = options.call_timeout_ms;
    options.retry.busy_ms_max = options.call_timeout_ms;
  }
  options.retry.attempts_max = flags.attempts.value_or(flags.timeout_s > 0 ? 0 : kAttempts);
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<client::Client>> Connect(
    const CommonFlags& flags, std::function<void(const absl::Status& why)> on_retry) {
  client::ClientOptions options = OptionsOf(flags);
  options.on_retry = std::move(on_retry);
  return client::Client::Connect(flags.server, std::move(options));
}

absl::StatusOr<std::unique_ptr<client::TaskClient>> ConnectTasks(const CommonFlags& flags) {
  return client::TaskClient::Connect(flags.server, OptionsOf(flags));
}

absl::StatusOr<std::unique_ptr<client::Client>> ConnectToWait(const CommonFlags& flags,
                                                              const std::string& round) {
  client::ClientOptions options = OptionsOf(flags);
  options.retry.attempts_max = flags.attempts.value_or(0);
  options.on_retry = [json = flags.json, told = std::string()](const absl::Status& why) mutable {
    const std::string line = OneLine(std::string(why.message()));
    if (json || !absl::IsUnavailable(why) || std::exchange(told, line) == line) return;
    std::fprintf(stderr, "sparseagg: %s; trying again\n", line.c_str());
  };
  SPARSEAGG_ASSIGN_OR_RETURN(auto client,
                             client::Client::Connect(flags.server, std::move(options)));
  // This records the round's store and epoch, so that the client can report a lost round.
  SPARSEAGG_RETURN_IF_ERROR(client->GetRound(round).status());
  return client;
}

absl::StatusOr<client::RoundInfo> WaitFor(const std::string& round, const WaitFlags& wait,
                                          const CommonFlags& flags) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto client, ConnectToWait(flags, round));
  return client->Wait(round, wait.timeout_ms());
}

void SetBody(CLI::App& command, const CliContext& context, const CommonFlags& flags,
             std::function<absl::Status()> body) {
  command.callback([exit_code = context.exit_code, &flags, body = std::move(body)] {
    const absl::Status status = Outcome(body);
    if (status.ok()) return;
    *exit_code = Report(status, flags);
  });
}

int Report(const absl::Status& error, const CommonFlags& flags) {
  PrintError(error, flags.json);
  return ExitCodeOf(error);
}

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitCannotConnect;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    default:
      break;
  }
  const std::string reason = ErrorReason(status);
  if (reason == "BAD_ARGUMENT") return kExitUsage;
  if (reason == "INTERRUPTED") return kExitInterrupted;
  // The client's own error, and every refusal of the server because of that state.
  const bool aborted = reason == "ROUND_ABORTED" || ErrorMetadata(status)["state"] == "ABORTED";
  return aborted ? kExitAborted : kExitRefused;
}

std::string ErrorLine(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  std::string line = OneLine(std::string(status.message()));
  for (const Hint& hint : kHints) {
    if (reason == hint.reason) return absl::StrCat(line, "; ", hint.text);
  }
  if (status.code() == absl::StatusCode::kNotFound) {
    absl::StrAppend(&line, "; `sparseagg round list` lists the rounds");
  }
  return line;
}

}  // namespace sparseagg::cli
