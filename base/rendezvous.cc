#include "base/rendezvous.h"

namespace sparseagg {
namespace {

constexpr uint64_t kFnvOffset = 0xcbf29ce484222325;
constexpr uint64_t kFnvPrime = 0x100000001b3;

uint64_t Add(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return hash;
}

uint64_t AddEnd(uint64_t hash) { return hash * kFnvPrime; }  // of a byte 0

uint64_t Mix(uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

}  // namespace

RendezvousHash::RendezvousHash(std::string_view round, std::string_view contributor)
    : start_(AddEnd(Add(AddEnd(Add(kFnvOffset, round)), contributor))) {}

uint64_t RendezvousHash::Weight(std::string_view leaf) const { return Mix(Add(start_, leaf)); }

size_t ChooseLeaf(std::string_view round, std::string_view contributor, size_t leaves,
                  const std::function<std::string_view(size_t)>& id_of) {
  const RendezvousHash hash(round, contributor);
  size_t chosen = 0;
  uint64_t highest = hash.Weight(id_of(0));
  for (size_t i = 1; i < leaves; ++i) {
    const uint64_t weight = hash.Weight(id_of(i));
    if (weight < highest || (weight == highest && id_of(i) > id_of(chosen))) continue;
    chosen = i;
    highest = weight;
  }
  return chosen;
}

}  // namespace sparseagg
