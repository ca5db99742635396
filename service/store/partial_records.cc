#include "service/store/partial_records.h"

#include <cstring>

#include "service/store/checksums/crc32c.h"

namespace sparseagg {
namespace {

template <class Integer>
void Put(std::string& out, Integer value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutString(std::string& out, std::string_view text) {
  Put(out, static_cast<uint32_t>(text.size()));
  out += text;
}

std::string Record(const std::string& body) {
  std::string record;
  Put(record, Crc32c(body));
  PutString(record, body);
  return record;
}

template <class Integer>
bool Get(std::string_view& in, Integer& value) {
  if (in.size() < sizeof(value)) return false;
  std::memcpy(&value, in.data(), sizeof(value));
  in.remove_prefix(sizeof(value));
  return true;
}

bool GetString(std::string_view& in, std::string_view& text) {
  uint32_t size = 0;
  if (!Get(in, size) || in.size() < size) return false;
  text = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

bool GetRecord(std::string_view& in, std::string_view& body) {
  uint32_t crc32c = 0;
  return Get(in, crc32c) && GetString(in, body) && Crc32c(body) == crc32c;
}

std::optional<PartialIdentity> ReadIdentity(std::string_view body) {
  PartialIdentity identity;
  for (std::string* field :
       {&identity.round, &identity.contributor, &identity.update_id, &identity.description}) {
    std::string_view text;
    if (!GetString(body, text)) return std::nullopt;
    *field = text;
  }
  if (!Get(body, identity.total_bytes) || !body.empty()) return std::nullopt;
  return identity;
}

}  // namespace

std::string IdentityRecord(const PartialIdentity& identity) {
  std::string body;
  for (const std::string* field :
       {&identity.round, &identity.contributor, &identity.update_id, &identity.description}) {
    PutString(body, *field);
  }
  Put(body, identity.total_bytes);
  return Record(body);
}

std::string CheckpointRecord(const Checkpoint& checkpoint) {
  std::string body;
  Put(body, checkpoint.bytes);
  Put(body, checkpoint.crc32c);
  return Record(body);
}

PartialRecord ReadPartialRecord(std::string_view text) {
  PartialRecord record;
  std::string_view rest = text;
  std::string_view body;
  if (!GetRecord(rest, body)) return record;
  record.identity = ReadIdentity(body);
  if (!record.identity) return record;
  record.identity_end = text.size() - rest.size();
  uint64_t last = 0;
  while (GetRecord(rest, body)) {
    Checkpoint checkpoint;
    if (!Get(body, checkpoint.bytes) || !Get(body, checkpoint.crc32c) || !body.empty()) break;
    if (checkpoint.bytes <= last || checkpoint.bytes > record.identity->total_bytes) break;
    last = checkpoint.bytes;
    checkpoint.end = text.size() - rest.size();
    record.checkpoints.push_back(checkpoint);
  }
  return record;
}

}  // namespace sparseagg
