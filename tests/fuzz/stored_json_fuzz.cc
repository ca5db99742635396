// What the engine and the task service read back from the store as JSON: refused, or read to what
// its writer would write.
#include "service/engine/recovery/stored.h"
#include "service/tasks/stored_tasks.h"
#include "tests/fuzz/fuzz_input.h"

namespace sparseagg::fuzz {
namespace {

void Description(std::string_view text) {
  const auto read = ReadDescription(text);
  if (!read.ok()) return;
  const std::string written = WriteDescription(*read);
  const auto again = ReadDescription(written);
  Require(again.ok() && WriteDescription(*again) == written,
          "a description changes when rewritten");
}

void Details(std::string_view text) {
  RoundSnapshot snapshot;
  if (!ReadDetails(text, snapshot).ok()) return;
  const std::string written = WriteDetails(snapshot);
  RoundSnapshot again;
  Require(ReadDetails(written, again).ok() && WriteDetails(again) == written,
          "the state of a round changes when rewritten");
}

void Headers(std::string_view text) {
  const auto read = ReadHeaders(text);
  if (!read.ok()) return;
  const std::string written = WriteHeaders(*read);
  const auto again = ReadHeaders(written);
  Require(again.ok() && WriteHeaders(*again) == written, "headers change when rewritten");
}

// `read(text)` and `write(value)` of a row of tasks. What an earlier version wrote is written in
// the form of this one.
void TaskRowOf(std::string_view text, auto read, auto write) {
  const auto value = read(text);
  if (!value.ok()) return;
  const std::string written = write(*value);
  const auto again = read(written);
  Require(again.ok() && write(*again) == written, "a row of tasks changes when rewritten");
}

void TaskRows(uint8_t kind, std::string_view text) {
  const auto read_group = [](auto row) { return ReadTaskGroup("taskgroups/g", row); };
  const auto read_task = [](auto row) { return ReadTask("default", row); };
  if (kind == 'g') TaskRowOf(text, read_group, WriteTaskGroup);
  if (kind == 't') TaskRowOf(text, read_task, WriteTask);
  if (kind == 'e') TaskRowOf(text, ReadGroupEnd, WriteGroupEnd);
  if (kind == 'r') TaskRowOf(text, ReadForgottenRequest, WriteForgottenRequest);
}

void TaskKey(std::string_view text) {
  const TaskRowName name = ParseTaskRowKey(text);
  if (name.kind != TaskRowName::Kind::kTask) return;
  const TaskRowName again = ParseTaskRowKey(TaskRowKey(name.group, name.number));
  Require(again.group == name.group && again.number == name.number, "a key names another task");
}

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg::fuzz;
  FuzzInput input(data, size);
  const auto kind = input.Take<uint8_t>();
  switch (kind) {
    case 'd':
      Description(input.Rest());
      break;
    case 's':
      Details(input.Rest());
      break;
    case 'h':
      Headers(input.Rest());
      break;
    case 'g':
    case 't':
    case 'e':
    case 'r':
      TaskRows(kind, input.Rest());
      break;
    case 'k':
      TaskKey(input.Rest());
      break;
    default:
      break;
  }
  return 0;
}
