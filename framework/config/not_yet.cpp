// SPDX-License-Identifier: Apache-2.0
// What the config language can say and no code can do. A feature that is built takes its line out here.
#include "framework/config/rules.h"
#include "framework/config/writer.h"

namespace tessera::config {
namespace {

struct Unsupported {
  std::string key;
  bool (*asked)(const RunConfig&);
  std::string what;
};

const std::vector<Unsupported>& unsupported() {
  using C = const RunConfig&;
  static const std::vector<Unsupported> table = {
      {"run.device", [](C c) { return c.run.device == RunSection::Device::Cuda; }, "the CUDA backend"},
      {"parallel.ep", [](C c) { return c.parallel.ep > 1; }, "expert parallelism"},
      {"parallel.etp", [](C c) { return c.parallel.etp > 1; }, "cutting experts over ranks"},
      // The launch decides between threads and MPI.
      {"comm.backend", [](C c) { return c.comm.backend != CommSection::Backend::Auto; },
       "a choice of backends"},
  };
  return table;
}

}  // namespace

std::vector<UnsupportedFeature> unsupported_features() {
  std::vector<UnsupportedFeature> features;
  for (const Unsupported& feature : unsupported()) features.push_back({feature.key, feature.what});
  return features;
}

void refuse_unsupported(const RunConfig& config, const Given& given) {
  for (const Unsupported& feature : unsupported()) {
    if (!feature.asked(config)) continue;
    const std::string value = value_text(config, feature.key);
    fail_at(given.at(feature.key), "{}{}{}: {} is not built yet", feature.key, value.empty() ? "" : " = ",
            value, feature.what);
  }
}

}  // namespace tessera::config
