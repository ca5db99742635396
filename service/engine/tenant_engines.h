// The engine as each tenant sees it: its own rounds and no others. Names are passed as the caller
// wrote them and are qualified here, so that no name can refer to another tenant's round; such a
// round does not exist for the caller.
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

  // Returns the engine of a tenant, which lives as long as this object and is created on first use.
  // Tenants come from credentials, so the operator bounds their number. Recover() and Drain() of
  // any of them act on the whole engine.
  Engine& Of(std::string_view tenant);

 private:
  Engine& engine_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Engine>, std::less<>> by_tenant_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_TENANT_ENGINES_H_
