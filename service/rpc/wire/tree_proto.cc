#include "service/rpc/wire/tree_proto.h"

#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/time_proto.h"

namespace sparseagg {

v1::Leaf ToProto(const Leaf& leaf) {
  v1::Leaf proto;
  proto.set_id(leaf.id);
  proto.set_address(leaf.address);
  return proto;
}

v1::RowRange ToProto(const RowRange& rows) {
  v1::RowRange proto;
  proto.set_first_tensor(rows.first.tensor);
  proto.set_first_row(rows.first.row);
  proto.set_end_tensor(rows.end.tensor);
  proto.set_end_row(rows.end.row);
  return proto;
}

RowRange FromProto(const v1::RowRange& rows) {
  return {.first = {rows.first_tensor(), rows.first_row()},
          .end = {rows.end_tensor(), rows.end_row()}};
}

v1::RoundTree ToProto(const RoundTree& tree) {
  v1::RoundTree proto;
  for (const Leaf& leaf : tree.leaves) *proto.add_leaves() = ToProto(leaf);
  proto.set_self(tree.self);
  proto.set_owners(tree.owners);
  proto.set_root_round(tree.root_round);
  if (tree.part) {
    proto.mutable_part()->set_round(tree.part->round);
    *proto.mutable_part()->mutable_rows() = ToProto(tree.part->rows);
  }
  return proto;
}

RoundTree FromProto(const v1::RoundTree& proto) {
  RoundTree tree = {.leaves = {}, .self = proto.self()};
  for (const v1::Leaf& leaf : proto.leaves()) tree.leaves.push_back({leaf.id(), leaf.address()});
  tree.owners = proto.owners();
  tree.root_round = proto.root_round();
  if (proto.has_part()) tree.part = {proto.part().round(), FromProto(proto.part().rows())};
  return tree;
}

v1::ResultPart ToProto(const ResultPart& part) {
  v1::ResultPart proto;
  *proto.mutable_owner() = ToProto(part.owner);
  proto.set_round(part.round);
  *proto.mutable_rows() = ToProto(part.rows);
  return proto;
}

v1::LeafStatus ToProto(const LeafStatus& status) {
  v1::LeafStatus proto;
  *proto.mutable_leaf() = ToProto(status.leaf);
  proto.set_up(status.up);
  SetDuration(status.silent_for, proto.mutable_silent_for());
  proto.set_error(status.error);
  proto.set_rounds(status.rounds);
  proto.set_partial_bytes(status.partial_bytes);
  proto.set_given_up(status.given_up);
  return proto;
}

}  // namespace sparseagg
