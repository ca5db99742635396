#include "tests/power_cut/crash_states.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

namespace sparseagg::testing {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSectorBytes = 512;

struct Inode {
  explicit Inode(std::string content = "") : durable(std::move(content)) {}

  std::string durable;
  std::vector<const IoEvent*> pending;  // kWrite and kTruncate since the last sync
};
using Names = std::map<std::string, std::shared_ptr<Inode>>;

bool Coin(std::mt19937_64& random) { return (random() & 1) != 0; }

void Put(std::string& content, uint64_t offset, std::string_view data) {
  if (content.size() < offset + data.size()) content.resize(offset + data.size());
  content.replace(offset, data.size(), data);
}

void Apply(const IoEvent& event, std::string& content) {
  if (event.op == IoOp::kTruncate) {
    content.resize(event.offset);
  } else {
    Put(content, event.offset, event.data);
  }
}

// Applies each sector of a write by chance, and a truncation as a whole.
void ApplyTorn(const IoEvent& event, std::string& content, std::mt19937_64& random) {
  if (event.op == IoOp::kTruncate) return Apply(event, content);
  const std::string_view data = event.data;
  for (size_t at = 0; at < data.size();) {
    const size_t size =
        std::min(data.size() - at, kSectorBytes - (event.offset + at) % kSectorBytes);
    if (Coin(random)) Put(content, event.offset + at, data.substr(at, size));
    at += size;
  }
}

std::string ContentAfterCut(const Inode& inode, CutPolicy policy, std::mt19937_64& random) {
  std::string content = inode.durable;
  size_t whole = 0;
  if (policy == CutPolicy::kKept) whole = inode.pending.size();
  if (policy == CutPolicy::kPrefix && !inode.pending.empty()) {
    whole = random() % (inode.pending.size() + 1);
  }
  for (size_t i = 0; i < whole; ++i) Apply(*inode.pending[i], content);
  if (policy == CutPolicy::kPrefix && whole < inode.pending.size()) {
    ApplyTorn(*inode.pending[whole], content, random);
  }
  if (policy == CutPolicy::kTorn) {
    for (const IoEvent* event : inode.pending) ApplyTorn(*event, content, random);
  }
  return content;
}

std::string FolderOf(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

Names NamesAfterCut(const Names& live, const Names& durable, CutPolicy policy,
                    std::mt19937_64& random) {
  if (policy == CutPolicy::kLost) return durable;
  if (policy == CutPolicy::kKept) return live;
  std::set<std::string> all;
  for (const Names* names : {&live, &durable}) {
    for (const auto& [name, inode] : *names) all.insert(name);
  }
  Names after;
  for (const std::string& name : all) {
    const Names& from = Coin(random) ? live : durable;
    const auto found = from.find(name);
    if (found != from.end()) after.insert(*found);
  }
  return after;
}

}  // namespace

std::vector<IoEvent> ReadIoLog(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<IoEvent> events;
  IoRecord head;
  while (file.read(reinterpret_cast<char*>(&head), sizeof(head))) {
    IoEvent event = {head.op, std::string(head.name_bytes, '\0'), head.offset,
                     std::string(head.data_bytes, '\0')};
    file.read(event.name.data(), static_cast<std::streamsize>(head.name_bytes));
    file.read(event.data.data(), static_cast<std::streamsize>(head.data_bytes));
    if (file) events.push_back(std::move(event));  // a kill may have cut the last record short
  }
  return events;
}

Files ReadFolder(const std::string& folder) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), folder)] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

void WriteFolder(const std::string& folder, const Files& files) {
  for (const auto& [name, content] : files) {
    const fs::path path = fs::path(folder) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
}

CrashState CutPower(const Files& initial, const std::vector<IoEvent>& events, size_t cut,
                    CutPolicy policy, std::mt19937_64& random) {
  Names live;
  for (const auto& [name, content] : initial) live[name] = std::make_shared<Inode>(content);
  Names durable = live;
  CrashState state;
  for (size_t i = 0; i < cut; ++i) {
    const IoEvent& event = events[i];
    switch (event.op) {
      case IoOp::kCreate:
        live[event.name] = std::make_shared<Inode>();
        break;
      case IoOp::kWrite:
      case IoOp::kTruncate:
        if (live.contains(event.name)) live[event.name]->pending.push_back(&event);
        break;
      case IoOp::kSync:
        if (live.contains(event.name)) {
          Inode& inode = *live[event.name];
          for (const IoEvent* write : std::exchange(inode.pending, {})) {
            Apply(*write, inode.durable);
          }
        }
        break;
      case IoOp::kUnlink:
        live.erase(event.name);
        break;
      case IoOp::kSyncFolder:
        std::erase_if(durable,
                      [&](const auto& entry) { return FolderOf(entry.first) == event.name; });
        for (const auto& entry : live) {
          if (FolderOf(entry.first) == event.name) durable.insert(entry);
        }
        break;
      case IoOp::kAck:
        state.acknowledged.push_back(event.data);
        break;
    }
  }
  for (const auto& [name, inode] : NamesAfterCut(live, durable, policy, random)) {
    state.files[name] = ContentAfterCut(*inode, policy, random);
  }
  return state;
}

}  // namespace sparseagg::testing
