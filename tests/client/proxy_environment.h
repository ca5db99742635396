// Sets the environment variables of a machine with or without an HTTP proxy.
#ifndef SPARSEAGG_TESTS_CLIENT_PROXY_ENVIRONMENT_H_
#define SPARSEAGG_TESTS_CLIENT_PROXY_ENVIRONMENT_H_

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace sparseagg::testing {

// The destructor restores the variables.
class ProxyEnvironment {
 public:
  ProxyEnvironment() {
    for (const char* name :
         {"grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy"}) {
      const char* value = std::getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      unsetenv(name);
    }
  }
  explicit ProxyEnvironment(const std::string& url) : ProxyEnvironment() { Set("http_proxy", url); }
  ~ProxyEnvironment() {
    for (const auto& [name, value] : before_) {
      value.has_value() ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  ProxyEnvironment(const ProxyEnvironment&) = delete;
  ProxyEnvironment& operator=(const ProxyEnvironment&) = delete;

  static void Set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CLIENT_PROXY_ENVIRONMENT_H_
