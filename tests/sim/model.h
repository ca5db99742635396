// What a server of rounds is, on a page: the definition that the engine is compared with. It knows
// nothing of threads, disks and sums of floating-point numbers: values are small multiples of a
// power of two, so that plain arithmetic is exact.
#ifndef SPARSEAGG_TESTS_SIM_MODEL_H_
#define SPARSEAGG_TESTS_SIM_MODEL_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "service/engine/round_state.h"

namespace sparseagg::sim {

// An update; its entries are a function of contributor and variant.
struct Update {
  std::string round;
  std::string contributor;
  std::string update_id;
  int variant = 0;
  float weight = 1;
  // "" or the reason for which it is refused when it is looked at: a negative weight, an index out
  // of range, ...
  std::string flaw;
};

using Entries = std::map<int64_t, double>;  // by row
Entries EntriesOf(const Update& update);
// Some are sent as many entries of the same rows, so that their bytes get a file of their own.
bool IsLong(const Update& update);

struct Answer {
  std::string reason;  // of the refusal; empty: there is a receipt
  bool duplicate = false;
  uint64_t sequence = 0;
};

// When a round ends by itself; 0: no such limit.
struct Policy {
  uint64_t goal = 0;
  std::chrono::milliseconds grace{0};
  uint64_t min = 0;
  uint64_t max = 0;
  std::chrono::milliseconds open_for{0};

  bool operator==(const Policy&) const = default;
};

using Time = std::chrono::system_clock::time_point;

struct Round {
  RoundState state = RoundState::kOpen;
  bool durable = true;
  std::string op;
  std::string request_id;
  Policy policy;
  Time created;
  std::optional<Time> goal_reached;
  // A crash came between reaching the goal and noting when: the grace may have begun again.
  bool grace_unsure = false;
  std::map<std::string, Update> counted;  // by contributor
  std::map<std::string, uint64_t> sequences;
  // A deletion of it was begun, so that its books may be gone already.
  bool crumbling = false;
  // What its retention is counted from, once it has ended.
  Time since;

  // Whether it accepts no more updates, and is closed as soon as somebody looks.
  bool Closing(Time now) const;
  bool PastDeadline(Time now) const;
  Entries Result() const;
  double TotalWeight() const;
};

class Model {
 public:
  std::map<std::string, Round> rounds;  // by name

  // Each returns the reason of the refusal that is due, or "" and takes effect.
  std::string Create(const std::string& name, const Round& round);
  std::string Seal(const std::string& name);
  std::string Abort(const std::string& name);
  std::string Delete(const std::string& name);
  // What is due for an update, without taking effect; and its effect.
  Answer Judge(const Update& update, Time now) const;
  // The same for one in chunks, which is recognised without its bytes.
  Answer JudgeUpload(const Update& update, Time now) const;
  void Count(const Update& update, Time now);
  // The process ended: rounds in memory are gone.
  void Crash();

 private:
  // What is due before the bytes are looked at; nullopt: they decide.
  std::optional<Answer> JudgeHeader(const Update& update, Time now) const;
};

}  // namespace sparseagg::sim

#endif  // SPARSEAGG_TESTS_SIM_MODEL_H_
