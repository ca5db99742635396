#include "service/tree/start_tree.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/client.h"
#include "client/transport/credentials.h"
#include "service/tree/grpc_leaf.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {
namespace {

// The link to an address that cannot be dialled: each call fails with the reason.
class NoLeaf : public LeafLink {
 public:
  explicit NoLeaf(absl::Status why) : why_(std::move(why)) {}
  absl::Status Greet() override { return why_; }
  absl::StatusOr<LeafRound> Create(const CreateRoundArgs& /*args*/) override { return why_; }
  absl::StatusOr<LeafRound> Get(const std::string& /*name*/) override { return why_; }
  absl::StatusOr<LeafRound> Seal(const std::string& /*name*/) override { return why_; }
  absl::Status Abort(const std::string& /*name*/) override { return why_; }
  absl::Status Delete(const std::string& /*name*/) override { return why_; }
  absl::Status GiveUp(const std::string& /*name*/) override { return why_; }
  absl::Status ReadPartial(
      const std::string& /*name*/, const std::optional<RowRange>& /*rows*/, uint64_t /*likely*/,
      const std::function<absl::StatusOr<uint64_t>(const LeafPartial&)>& /*on_header*/,
      const std::function<absl::Status(uint64_t, std::string_view)>& /*on_bytes*/) override {
    return why_;
  }
  absl::StatusOr<OwnerRound> GetOwned(const std::string& /*name*/) override { return why_; }
  absl::StatusOr<Verification> Verify(const std::string& /*name*/) override { return why_; }
  void ReadResult(const std::string& /*name*/, const v1::ReadResultRequest& /*request*/,
                  PartReader::Done done) override {
    done(why_);
  }

 private:
  const absl::Status why_;
};

}  // namespace

absl::StatusOr<std::vector<Leaf>> LeavesOf(const std::string& setting, std::string_view name) {
  RoundTree tree;
  if (setting.empty()) return tree.leaves;
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(setting, ','))) {
    const size_t equals = text.find('=');
    const std::string address = equals == std::string::npos ? text : text.substr(equals + 1);
    tree.leaves.push_back(
        {equals == std::string::npos ? address : text.substr(0, equals), address});
  }
  const absl::Status valid = CheckTree(tree);
  if (valid.ok()) return tree.leaves;
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG",
                   absl::StrCat(std::string(name), ": ", std::string(valid.message())));
}

absl::StatusOr<std::unique_ptr<TreeEngine>> StartTree(const ServerConfig& config, Engine& engine,
                                                      const UpdateStore& store, TaskRowStore* rows,
                                                      const Log& log) {
  TreeOptions options;
  SPARSEAGG_ASSIGN_OR_RETURN(options.leaves, LeavesOf(config.leaves, "leaves"));
  if (!options.leaves.empty() && rows == nullptr) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG",
                     "leaves needs data-dir: without it, a restart would leave the rounds of this "
                     "server open at its leaves for ever");
  }
  client::ClientOptions client;
  if (!config.leaves_authority.empty()) client.tls = {.authority_file = config.leaves_authority};
  if (!config.leaves_token_file.empty()) {
    client.token = [file = config.leaves_token_file] { return client::ReadTokenFile(file); };
  }
  options.connect = [client](const Leaf& leaf) -> std::unique_ptr<LeafLink> {
    auto link = MakeGrpcLeaf(leaf.address, client);
    if (link.ok()) return *std::move(link);
    return std::make_unique<NoLeaf>(MakeError(absl::StatusCode::kUnavailable,
                                              ErrorReason(link.status()),
                                              std::string(link.status().message())));
  };
  options.log = [log](std::string_view event, const std::string& round, const std::string& detail) {
    log.Warning(event, {{"round", round}, {"detail", detail}});
  };
  OwnerOptions owner = {.peers = {}, .connect = options.connect, .log = options.log};
  SPARSEAGG_ASSIGN_OR_RETURN(owner.peers, LeavesOf(config.peers, "peers"));
  return TreeEngine::Start(std::move(options), std::move(owner), engine, store, rows);
}

}  // namespace sparseagg
