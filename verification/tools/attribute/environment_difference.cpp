#include "verification/tools/attribute/environment_difference.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace zeroproof::verification {
namespace {

using Effect = EffectOfDifference;

bool starts_with_any(const std::string& name, std::initializer_list<const char*> beginnings) {
  return std::ranges::any_of(beginnings, [&](const char* one) { return name.starts_with(one); });
}

/// By itself; consequences of other differences are removed later.
Effect effect_of(const std::string& group, const std::string& name, bool on_gpu) {
  if (group == "library") {
    if (name == "torch") return Effect::operations;
    if (name == "torch commit") return Effect::operations;
    if (name == "oneDNN" || name == "MKL" || name == "compiler of torch") return Effect::kernels;
    if (name == "CUDA") return on_gpu ? Effect::kernels : Effect::none;
    return name == "loaded libraries" ? Effect::possible : Effect::none;
  }
  if (group == "machine") {
    if (name == "CPU") return on_gpu ? Effect::possible : Effect::kernels;
    if (name == "GPU") return on_gpu ? Effect::kernels : Effect::none;
    return name == "system" ? Effect::possible : Effect::none;
  }
  if (group == "environment") {
    if (starts_with_any(name, {"ATEN_CPU_CAPABILITY", "DNNL_", "ONEDNN_", "MKL_CBWR",
                               "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_CORETYPE"}))
      return on_gpu ? Effect::possible : Effect::kernels;
    if (starts_with_any(name, {"CUBLAS", "NVIDIA_", "CUDNN_", "NCCL_"}))
      return on_gpu ? Effect::kernels : Effect::none;
    return Effect::possible;
  }
  if (name == "interop threads") return Effect::none;
  if (starts_with_any(name, {"cuda.", "cudnn.", "autocast on CUDA"}))
    return !on_gpu                      ? Effect::none
           : name == "autocast on CUDA" ? Effect::operations
                                        : Effect::kernels;
  if (starts_with_any(name, {"deterministic algorithms", "oneDNN", "autocast", "default dtype",
                             "flash attention", "memory-efficient attention",
                             "attention by matrix products", "NNPACK"}))
    return Effect::operations;
  return Effect::kernels;
}

using ByName = std::map<std::string, std::string>;

void add_differences(const std::string& group, const NamedTexts& before, const NamedTexts& after,
                     bool on_gpu, std::vector<EnvironmentDifference>& found) {
  const ByName old(before.begin(), before.end()), now(after.begin(), after.end());
  ByName all = old;
  all.insert(now.begin(), now.end());
  for (const auto& entry : all) {
    const std::string& name = entry.first;
    const auto a = old.find(name), b = now.find(name);
    const std::string from = a == old.end() ? "" : a->second, to = b == now.end() ? "" : b->second;
    if (from != to) found.push_back({group, name, from, to, effect_of(group, name, on_gpu)});
  }
}

/// A difference that another one brings with it is not a cause of its own.
void drop_consequences(std::vector<EnvironmentDifference>& all) {
  std::set<std::string> names;
  for (const EnvironmentDifference& one : all) names.insert(one.group + ' ' + one.name);
  const auto differs = [&](const char* name) { return names.count(name) > 0; };
  for (EnvironmentDifference& one : all) {
    const bool of_torch = one.group == "library" && one.name != "torch" &&
                          (differs("library torch") ||
                           (differs("library torch commit") && one.name != "torch commit"));
    const bool of_variable = one.group == "setting" && one.name == "CPU capability" &&
                             differs("environment ATEN_CPU_CAPABILITY");
    const bool of_cpu = one.name == "CPU capability" && differs("machine CPU");
    const bool of_threads = one.group == "environment" && differs("setting threads") &&
                            (one.name == "OMP_NUM_THREADS" || one.name == "MKL_NUM_THREADS");
    // A switch that one release has and the other lacks.
    const bool of_release = one.group == "setting" && differs("library torch") &&
                            (one.before.empty() || one.after.empty());
    if (of_torch || of_variable || of_cpu || of_threads || of_release) one.effect = Effect::none;
  }
}

}  // namespace

std::string EnvironmentDifference::text() const {
  return name + ' ' + (before.empty() ? "(none)" : before) + " -> " +
         (after.empty() ? "(none)" : after);
}

std::vector<EnvironmentDifference> environment_differences(const OperationsFile& before,
                                                           const OperationsFile& after,
                                                           std::size_t old_operation,
                                                           std::size_t new_operation, bool on_gpu) {
  std::vector<EnvironmentDifference> found;
  add_differences("library", before.libraries, after.libraries, on_gpu, found);
  add_differences("machine", before.machine, after.machine, on_gpu, found);
  add_differences("setting", before.settings_at(old_operation), after.settings_at(new_operation),
                  on_gpu, found);
  add_differences("environment", before.environment, after.environment, on_gpu, found);
  drop_consequences(found);
  const auto weight = [](const EnvironmentDifference& one) {
    return one.effect == Effect::operations ? 0
           : one.effect == Effect::kernels  ? 1
           : one.effect == Effect::possible ? 2
                                            : 3;
  };
  std::ranges::stable_sort(found, {}, weight);
  return found;
}

}  // namespace zeroproof::verification
