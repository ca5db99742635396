// The engine as each tenant sees it: its own rounds and no others. Names go in as the caller wrote
// them, so that no name can reach into another tenant; another tenant's round is one that does not
// exist.
#ifndef SPARSEAGG_SERVICE_ENGINE_TENANT_ENGINES_H_
#define SPARSEAGG_SERVICE_ENGINE_TENANT_ENGINES_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "service/engine/engine.h"

namespace sparseagg {

// Thread-safe.
class TenantEngines {
 public:
  // `engine` must outlive this.
  explicit TenantEngines(Engine& engine) : engine_(engine) {}

  // Lives as long as this. Made when a tenant is first seen; tenants come from credentials, so
  // their number is the operator's choice. Recover() and Drain() are the whole engine's.
  Engine& Of(std::string_view tenant);

 private:
  Engine& engine_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Engine>, std::less<>> by_tenant_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_TENANT_ENGINES_H_
