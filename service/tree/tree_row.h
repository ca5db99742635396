// The row that a root keeps in its store beside a round with leaves
// (service/store/task_row_store.h). The round's specification has the leaves, and its store the
// partial aggregates that it has counted; the row has what neither says, and outlives the round
// until its leaves are erased.
#ifndef SPARSEAGG_SERVICE_TREE_TREE_ROW_H_
#define SPARSEAGG_SERVICE_TREE_TREE_ROW_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/engine/round_tree.h"

namespace sparseagg {

struct TreeRow {
  using Time = std::chrono::system_clock::time_point;

  std::vector<Leaf> leaves;
  bool opened = false;               // every leaf has had the round: one without it has lost it
  std::optional<Time> sealing;       // when the seal began; in milliseconds
  std::optional<Time> goal_reached;  // when the grace began
  // Made up by the root for this round of the name. Empty: the row is from before there were ids.
  std::string id;
  // Of a divided result: what the names of the owners' rounds begin with. Empty: it is not divided.
  std::string parts;

  bool operator==(const TreeRow&) const = default;
};

std::string TreeRowKey(std::string_view round);
std::string_view RoundOfTreeRow(std::string_view key);
std::string WriteTreeRow(const TreeRow& row);
// Returns nullopt for text that WriteTreeRow() does not write.
std::optional<TreeRow> ReadTreeRow(std::string_view text);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_TREE_ROW_H_
