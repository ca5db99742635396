#include "service/http/method_table.h"

#include <google/protobuf/descriptor.h>

#include <utility>

#include "sparseagg/v1/aggregation.pb.h"
#include "sparseagg/v1/tasks.pb.h"

namespace sparseagg {
namespace {

using FileOf = const google::protobuf::Descriptor* (*)();

// The files of the services, each by one of its messages, so that it is linked.
constexpr FileOf kFiles[] = {
    &v1::GetServerInfoRequest::descriptor,
    &v1::AcquireTasksRequest::descriptor,
};

}  // namespace

MethodTable::MethodTable() {
  for (const FileOf message : kFiles) {
    const google::protobuf::FileDescriptor* const file = message()->file();
    for (int s = 0; s < file->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor& service = *file->service(s);
      for (int m = 0; m < service.method_count(); ++m) {
        const google::protobuf::MethodDescriptor& method = *service.method(m);
        HttpMethod row{.path = "/" + service.full_name() + "/" + method.name(),
                       .request_type = method.input_type()->full_name(),
                       .response_type = method.output_type()->full_name(),
                       .streams = method.client_streaming() || method.server_streaming()};
        methods_[row.path] = row;
      }
    }
  }
}

const HttpMethod* MethodTable::Find(std::string_view path) const {
  const auto found = methods_.find(path);
  return found == methods_.end() ? nullptr : &found->second;
}

}  // namespace sparseagg
