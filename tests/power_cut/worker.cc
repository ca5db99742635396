#include "tests/power_cut/worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/store/durable_store.h"
#include "tests/power_cut/io_log.h"

namespace sparseagg::testing {
namespace {

constexpr int kPairs = 3;          // of threads that send the same updates
constexpr int kUpdatesEach = 40;   // of a pair
constexpr size_t kLong = 140'000;  // large enough for a file
constexpr uint64_t kCheckpointBytes = 30'000;

std::unique_ptr<UpdateStore> Open(const std::string& folder) {
  auto store = OpenDurableStore(
      {.directory = folder, .free_bytes_min = 0, .checkpoint_bytes = kCheckpointBytes});
  return store.ok() ? *std::move(store) : nullptr;
}

bool Put(UpdateStore& store, const std::string& round, const std::string& id) {
  const std::string payload = PayloadOf(id);
  const std::array<std::string_view, 1> pieces = {payload};
  return store
      .Put({.round = round, .contributor = id, .update_id = "u", .digest = std::string(32, 'd')},
           {.headers = id, .payload = pieces})
      .ok();
}

bool Acknowledge(int fd, std::string_view what) {
  return write(fd, what.data(), what.size()) == static_cast<ssize_t>(what.size());
}

// Sends updates in chunks; every other one is interrupted.
bool PutInPieces(UpdateStore& store, int acks) {
  for (int number = 0; number < kPartials; ++number) {
    const PartialIdentity identity = PartialOf(number);
    const std::string payload = PayloadOf(identity.contributor);
    auto partial = store.OpenUploadPayload(identity);
    if (!partial.ok() || *partial == nullptr) return false;
    const size_t end = number % 2 == 0 ? payload.size() : payload.size() * 3 / 4;
    while ((*partial)->bytes() < end) {
      const size_t at = (*partial)->bytes();
      const auto piece = std::string_view(payload).substr(at, std::min<size_t>(9'999, end - at));
      if (!(*partial)->Append(piece).ok()) return false;
    }
    if (end < payload.size()) continue;
    const UpdateRecord record = {.round = kUpdatesRound,
                                 .contributor = identity.contributor,
                                 .update_id = "u",
                                 .digest = std::string(32, 'd')};
    if (!store.Put(record, {.headers = identity.contributor, .stored = partial->get()}).ok() ||
        !Acknowledge(acks, identity.contributor)) {
      return false;
    }
    (*partial)->Discard();  // as the engine does with every answered update
  }
  return true;
}

bool LiveARound(UpdateStore& store, int acks) {
  for (const char* id : {"1", "2", "6"}) {
    if (!Put(store, kResultRound, id)) return false;
  }
  const std::string result = ResultOfRound();
  const std::array<std::string_view, 1> pieces = {result};
  return store.CloseRound(kResultRound, "closed").ok() &&
         store.PublishRound(kResultRound, "published", pieces, /*keep_updates=*/false).ok() &&
         Acknowledge(acks, kPublishedAck) && store.ErasePayloads(kResultRound).ok();
}

bool RetireARound(UpdateStore& store, int acks) {
  if (!Put(store, kRetiredRound, "6") || !store.AbortRound(kRetiredRound, "").ok()) return false;
  if (!store.SetRoundDetails(kUpdatesRound, kNotedAck).ok() || !Acknowledge(acks, kNotedAck))
    return false;
  const std::chrono::system_clock::time_point erased(std::chrono::hours(500'000));
  return store.RetireRound({.round = kRetiredRound, .erased = erased}).ok() &&
         Acknowledge(acks, kRetiredAck);
}

int PutAll(UpdateStore& store, int acks) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 2 * kPairs; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kUpdatesEach; ++i) {
        const std::string id = absl::StrCat(t / 2 * kUpdatesEach + i);
        if (!Put(store, kUpdatesRound, id) || !Acknowledge(acks, id)) _exit(3);
      }
    });
  }
  threads.emplace_back([&] {
    if (!PutInPieces(store, acks)) _exit(7);
  });
  const bool lived = LiveARound(store, acks) && RetireARound(store, acks);
  for (std::thread& thread : threads) thread.join();
  return lived ? 0 : 4;
}

int ResendAll(UpdateStore& store, int acks) {
  std::vector<std::string> ids;
  const auto note = [&](const UpdateRecord& record, std::string_view, std::string_view) {
    ids.push_back(record.contributor);
    return absl::OkStatus();
  };
  if (!store.ReadUpdates(kUpdatesRound, note).ok()) return 5;
  for (const std::string& id : ids) {
    if (!Put(store, kUpdatesRound, id) || !Acknowledge(acks, id)) return 6;
  }
  return 0;
}

}  // namespace

std::string PayloadOf(const std::string& id) {
  const size_t number = std::stoul(id);
  const size_t bytes = number % 6 == 0 ? kLong : 200 + number * 37 % 3000;
  std::string payload;
  while (payload.size() < bytes) absl::StrAppend(&payload, id, ".");
  payload.resize(bytes);
  return payload;
}

PartialIdentity PartialOf(int number) {
  const std::string id = absl::StrCat(900'000 + 6 * number);
  return {.round = kUpdatesRound,
          .contributor = id,
          .update_id = "u",
          .description = "partial",
          .total_bytes = PayloadOf(id).size()};
}

std::string ResultOfRound() { return PayloadOf("600006"); }

bool PrepareStore(const std::string& folder) {
  const auto store = Open(folder);
  if (store == nullptr) return false;
  for (const char* round : {kUpdatesRound, kResultRound, kRetiredRound}) {
    if (!store->OpenRound({.name = round, .durability = Durability::kDurable}).ok()) return false;
  }
  return true;
}

int RunWorker(const std::string& folder, const std::string& mode) {
  const auto store = Open(folder);
  if (store == nullptr) return 2;
  const int acks = open(absl::StrCat(folder, "/", kAckFile).c_str(),
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (acks < 0 || !Acknowledge(acks, absl::StrCat(kEpochAck, store->Epoch().epoch))) return 2;
  return mode == "resend" ? ResendAll(*store, acks) : PutAll(*store, acks);
}

}  // namespace sparseagg::testing
