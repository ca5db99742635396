// A model of the server on one page, which the engine is compared with. It has no threads, no disk
// and no floating-point rounding: values are small multiples of a power of two, so that plain
// arithmetic is exact.
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
  // The reason for which validation refuses it, or "": a negative weight, an index out of range,
  // ...
  std::string flaw;
};

using Entries = std::map<int64_t, double>;  // by row
Entries EntriesOf(const Update& update);
// Returns whether the update repeats its rows many times, so that its payload gets a file of its
// own.
bool IsLong(const Update& update);

struct Answer {
  std::string reason;  // of the refusal; empty: there is a receipt
  bool duplicate = false;
  uint64_t sequence = 0;
};

// When the policy ends a round; 0: no such limit.
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
  // A crash came between reaching the goal and storing when, so the grace period may have started
  // again.
  bool grace_uncertain = false;
  std::map<std::string, Update> counted;  // by contributor
  std::map<std::string, uint64_t> sequences;
  // A deletion was started, so the store may have deleted the round already.
  bool deletion_started = false;
  // The start of its retention, once it has ended.
  Time since;

  // Returns whether it accepts no more updates and closes at the next check.
  bool Closing(Time now) const;
  bool PastDeadline(Time now) const;
  Entries Result() const;
  double TotalWeight() const;
};

class Model {
 public:
  std::map<std::string, Round> rounds;  // by name

  // Each returns the reason of the expected refusal, or applies the change and returns "".
  std::string Create(const std::string& name, const Round& round);
  std::string Seal(const std::string& name);
  std::string Abort(const std::string& name);
  std::string Delete(const std::string& name);
  // ExpectedAnswer() returns the expected answer for an update and changes nothing; Count() applies
  // an accepted update.
  Answer ExpectedAnswer(const Update& update, Time now) const;
  // As ExpectedAnswer(), for an update in chunks, which is recognised without its bytes.
  Answer ExpectedUploadAnswer(const Update& update, Time now) const;
  void Count(const Update& update, Time now);
  // Ends the process: rounds in memory are gone.
  void Crash();

 private:
  // Returns the expected answer from the header alone; nullopt: the bytes decide.
  std::optional<Answer> ExpectedHeaderAnswer(const Update& update, Time now) const;
};

}  // namespace sparseagg::sim

#endif  // SPARSEAGG_TESTS_SIM_MODEL_H_
