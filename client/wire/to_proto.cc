#include "client/wire/to_proto.h"

#include <chrono>

namespace sparseagg::client {
namespace {

void SetDuration(std::chrono::milliseconds time, google::protobuf::Duration* out) {
  out->set_seconds(time.count() / 1000);
  out->set_nanos(static_cast<int32_t>(time.count() % 1000 * 1'000'000));
}

}  // namespace

v1::RoundPolicy ToProto(const RoundPolicy& policy) {
  v1::RoundPolicy proto;
  proto.set_goal_contributors(policy.goal_contributors);
  proto.set_min_contributors(policy.min_contributors);
  proto.set_max_contributors(policy.max_contributors);
  if (policy.grace.count() != 0) SetDuration(policy.grace, proto.mutable_grace());
  if (policy.open_for) SetDuration(*policy.open_for, proto.mutable_open_for());
  if (policy.leaf_wait) SetDuration(*policy.leaf_wait, proto.mutable_leaf_wait());
  if (policy.open_until) {
    const auto since_epoch = policy.open_until->time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
    proto.mutable_open_until()->set_seconds(seconds.count());
    proto.mutable_open_until()->set_nanos(
        static_cast<int32_t>(std::chrono::nanoseconds(since_epoch - seconds).count()));
  }
  return proto;
}

}  // namespace sparseagg::client
