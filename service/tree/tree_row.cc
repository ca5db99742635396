#include "service/tree/tree_row.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/store/task_row_store.h"

namespace sparseagg {
namespace {

// The first line: a version, opened (0 or 1), times in milliseconds, 0 for none, `parts` or "-" if
// the result is not divided, and the id. Earlier versions wrote no "-" and no id. Then a line for
// each leaf.
constexpr char kVersion[] = "1";
constexpr char kNotDivided[] = "-";

int64_t Count(const std::optional<TreeRow::Time>& time) {
  if (!time.has_value()) return 0;
  return std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count();
}

bool ReadTime(const std::string& text, std::optional<TreeRow::Time>& time) {
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count)) return false;
  if (count != 0) time = TreeRow::Time(std::chrono::milliseconds(count));
  return true;
}

}  // namespace

std::string TreeRowKey(std::string_view round) {
  return absl::StrCat(std::string(kTreeRowPrefix), std::string(round));
}

std::string_view RoundOfTreeRow(std::string_view key) { return key.substr(kTreeRowPrefix.size()); }

std::string WriteTreeRow(const TreeRow& row) {
  std::string text = absl::StrCat(kVersion, " ", row.opened ? 1 : 0, " ", Count(row.sealing), " ",
                                  Count(row.goal_reached));
  if (!row.parts.empty() || !row.id.empty()) {
    absl::StrAppend(&text, " ", row.parts.empty() ? kNotDivided : row.parts);
  }
  if (!row.id.empty()) absl::StrAppend(&text, " ", row.id);
  for (const Leaf& leaf : row.leaves) absl::StrAppend(&text, "\n", leaf.id, " ", leaf.address);
  return text;
}

std::optional<TreeRow> ReadTreeRow(std::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(std::string(text), '\n');
  const std::vector<std::string> head = absl::StrSplit(lines.front(), ' ');
  TreeRow row;
  if (head.size() < 4 || head.size() > 6 || head[0] != kVersion ||
      (head[1] != "0" && head[1] != "1") || !ReadTime(head[2], row.sealing) ||
      !ReadTime(head[3], row.goal_reached)) {
    return std::nullopt;
  }
  row.opened = head[1] == "1";
  if (head.size() > 4 && head[4] != kNotDivided) row.parts = head[4];
  if (head.size() > 5) row.id = head[5];
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t space = lines[i].find(' ');
    if (space == std::string::npos) return std::nullopt;
    row.leaves.push_back({lines[i].substr(0, space), lines[i].substr(space + 1)});
  }
  return row;
}

}  // namespace sparseagg
