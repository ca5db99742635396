// A round for a measurement, over the generated stubs. What goes wrong ends the process: a number
// after an error would mean nothing.
#ifndef SPARSEAGG_BENCH_ROUND_CALLS_H_
#define SPARSEAGG_BENCH_ROUND_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::bench {

using Service = v1::AggregationService;

void Check(const grpc::Status& status, const std::string& what);

// A connection of its own, which is made before this returns.
std::shared_ptr<grpc::Channel> Connect(const std::string& target);

// A tensor "emb" of f32 with `rows` rows of `width` values, op sum; dense when sparse_dim is 0.
std::string CreateRound(Service::Stub& stub, v1::Durability durability, int64_t rows, int64_t width,
                        int sparse_dim = 1);

// Seals and waits for the result; checks that every update was counted.
v1::Round Publish(Service::Stub& stub, const std::string& name, uint64_t contributors);

void DeleteRound(Service::Stub& stub, const std::string& name);

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_ROUND_CALLS_H_
