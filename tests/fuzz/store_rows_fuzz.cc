// A row of the store with one column changed on the disk: read as it was written, or found damaged,
// never as something else.
#include <array>

#include "service/store/schema.h"
#include "service/store/tables.h"
#include "tests/fuzz/fuzz_input.h"

namespace sparseagg::fuzz {
namespace {

// Tables and columns that a changed byte can hit.
constexpr std::array<const char*, 20> kChanges = {
    "UPDATE rounds SET name = ?",        "UPDATE rounds SET phase = ?",
    "UPDATE rounds SET description = ?", "UPDATE rounds SET details = ?",
    "UPDATE rounds SET crc32c = ?",      "UPDATE updates SET contributor = ?",
    "UPDATE updates SET update_id = ?",  "UPDATE updates SET weight = ?",
    "UPDATE updates SET digest = ?",     "UPDATE updates SET sequence = ?",
    "UPDATE updates SET crc32c = ?",     "UPDATE contents SET headers = ?",
    "UPDATE contents SET bytes = ?",     "UPDATE contents SET file = ?",
    "UPDATE contents SET data = ?",      "UPDATE contents SET crc32c = ?",
    "UPDATE results SET bytes = ?",      "UPDATE results SET file = ?",
    "UPDATE results SET data = ?",       "UPDATE results SET crc32c = ?"};

class Store {
 public:
  Store()
      : database_(Database::Open(":memory:").value()),
        files_(PayloadFiles::Open("/tmp/sparseagg_fuzz_no_payloads").value()),
        tables_(*database_, *files_) {
    Require(PrepareSchema(*database_).ok(), "no tables");
  }

  void Run(FuzzInput& input) {
    Require(database_->Run("BEGIN").ok(), "no transaction");
    RoundRecord round{.name = "rounds/" + std::string(input.Bytes(input.Below(20))),
                      .durability = Durability::kDurable,
                      .phase = static_cast<RoundPhase>(1 + input.Below(4)),
                      .description = std::string(input.Bytes(input.Below(40))),
                      .details = std::string(input.Bytes(input.Below(40)))};
    const UpdateRecord update{.round = round.name,
                              .contributor = std::string(input.Bytes(input.Below(20))),
                              .update_id = std::string(input.Bytes(input.Below(20))),
                              .weight = input.Below(2) == 0 ? 0.5f : 3e-39f,
                              .digest = std::string(input.Bytes(32)),
                              .sequence = input.Take<uint16_t>()};
    const std::string headers(input.Bytes(input.Below(40)));
    const std::string payload(input.Bytes(input.Below(80)));
    const std::string_view pieces[] = {payload};
    const BlobRef blob = tables_.StoreBlob(pieces).value();
    const int64_t id = tables_.InsertRound(round).value();
    Require(
        tables_.InsertUpdate(id, update, headers, blob).ok() && tables_.InsertResult(id, blob).ok(),
        "nothing can be stored");
    const size_t change = input.Below(kChanges.size() + 1);
    if (change < kChanges.size()) Change(kChanges[change], input);
    Compare(id, round, update, headers, payload);
    database_->Rollback();
  }

 private:
  // A refusal of the new value (by a type of a column) leaves the row as it was.
  void Change(const char* sql, FuzzInput& input) {
    Query query(*database_, sql);
    switch (input.Below(4)) {
      case 0:
        query.Integer(input.Take<int64_t>());
        break;
      case 1:
        query.Real(static_cast<double>(input.Take<int64_t>()) / 7);
        break;
      case 2:
        query.Text(input.Rest());
        break;
      default:
        query.Blob(input.Rest());
    }
    query.Done().IgnoreError();
  }

  void Compare(int64_t id, const RoundRecord& round, const UpdateRecord& update,
               const std::string& headers, const std::string& payload) {
    const auto rounds = tables_.Rounds();
    Require(rounds.ok() && rounds->size() == 1, "the round is gone");
    const RoundRecord& read = (*rounds)[0].record;
    Require(!read.damage.empty() ||
                (read.name == round.name && read.phase == round.phase &&
                 read.description == round.description && read.details == round.details),
            "a changed round is not found damaged");
    const auto same = [&](const UpdateRecord& got) {
      return got.contributor == update.contributor && got.update_id == update.update_id &&
             got.weight == update.weight && got.digest == update.digest &&
             got.sequence == update.sequence;
    };
    const absl::Status records = tables_.ReadRecords(id, round.name, [&](const UpdateRecord& got) {
      Require(same(got), "a changed update is believed");
    });
    Require(records.ok() || absl::IsDataLoss(records), "another error than damage");
    const auto rows = tables_.UpdateRows(id);
    Require(rows.ok(), "no rows");
    for (const int64_t number : *rows) {
      StoredUpdate got{.record = {.round = round.name}};
      const absl::Status found = tables_.ReadUpdate(number, id, got);
      Require(found.ok() || absl::IsDataLoss(found), "another error than damage");
      if (!found.ok()) continue;
      const auto content = tables_.Fetch(got.content);
      Require(content.ok()
                  ? same(got.record) && got.content.headers == headers && *content == payload
                  : absl::IsDataLoss(content.status()),
              "a changed content is believed");
    }
    const auto row = tables_.ReadResult(id);
    const auto result = row.ok() ? tables_.Fetch(*row) : row.status();
    Require(result.ok() ? *result == payload : absl::IsDataLoss(result.status()),
            "a changed result is believed");
  }

  std::unique_ptr<Database> database_;
  std::unique_ptr<PayloadFiles> files_;
  Tables tables_;
};

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static sparseagg::fuzz::Store store;
  sparseagg::fuzz::FuzzInput input(data, size);
  store.Run(input);
  return 0;
}
