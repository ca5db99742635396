// The interface of .proto files as a set of facts, one line each: what a program that was built
// against them relies on. Compatible is what still contains every released fact.
#ifndef SPARSEAGG_TESTS_PROTO_FACTS_H_
#define SPARSEAGG_TESTS_PROTO_FACTS_H_

#include <google/protobuf/descriptor.h>

#include <set>
#include <string>
#include <vector>

namespace sparseagg {

// For example:
//   field sparseagg.v1.Receipt.sequence = 5 uint64 singular
//   value sparseagg.v1.VALUE_TYPE_F32 = 3 in sparseagg.v1.ValueType
//   rpc sparseagg.v1.AggregationService.Reduce: stream sparseagg.v1.ReduceRequest -> stream
//   sparseagg.v1.ReduceResponse
std::set<std::string> InterfaceFacts(const google::protobuf::FileDescriptor& file);

// All files of the current interface, v1.
std::set<std::string> CurrentInterfaceFacts();

// The released facts that no longer hold. Removing a field is legal as long as its number and its
// name stay reserved.
std::vector<std::string> BrokenFacts(const std::set<std::string>& released,
                                     const std::set<std::string>& current);

}  // namespace sparseagg

#endif  // SPARSEAGG_TESTS_PROTO_FACTS_H_
