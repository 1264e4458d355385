#include "verification/interfaces/plugin/worker/library.hpp"

#include <dlfcn.h>

#include <cstddef>

namespace zeroproof::verification {
namespace {

bool complain(PluginHello& hello, const std::string& problem, const std::string& remedy) {
  put_text(hello.problem, problem);
  put_text(hello.remedy, remedy);
  return false;
}

/// True if the library was built with a version that has that field.
template <class Field>
bool reaches(const zeroproof_plugin& plugin, const Field zeroproof_plugin::*field) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&plugin);
  const auto* const end = reinterpret_cast<const std::byte*>(&(plugin.*field) + 1);
  return plugin.struct_size >= static_cast<std::size_t>(end - begin);
}

/// nullptr if the library has no whole steps.
zeroproof_step step_of(const zeroproof_plugin& plugin) {
  return reaches(plugin, &zeroproof_plugin::step) ? plugin.step : nullptr;
}

bool is_device_type(std::int32_t type, PluginHello& hello) {
  if (type == 0 || type == ZEROPROOF_CUDA || type == ZEROPROOF_SIMULATED) return true;
  return complain(hello, "asks for tensors of device_type " + std::to_string(type),
                  "use ZEROPROOF_CPU, or ZEROPROOF_DEVICE of zeroproof_kernel.h");
}

bool list_operations(const zeroproof_plugin& plugin, PluginHello& hello) {
  hello.makes_steps = step_of(plugin) != nullptr;
  if (plugin.num_operations == 0 && hello.makes_steps) return true;
  if (plugin.operations == nullptr || plugin.num_operations == 0) {
    return complain(hello, "has no operations",
                    "list at least one in zeroproof_plugin::operations, or give it a step");
  }
  if (plugin.num_operations > most_plugin_operations) {
    return complain(hello, "lists " + std::to_string(plugin.num_operations) + " operations",
                    "list each operation once; the interface has fewer");
  }
  for (std::uint64_t i = 0; i < plugin.num_operations; ++i) {
    const zeroproof_operation& one = plugin.operations[i];
    if (one.operation == nullptr) {
      return complain(hello, "has an operation without a name, number " + std::to_string(i),
                      "check num_operations");
    }
    const std::string name(one.operation, ::strnlen(one.operation, 47));
    if (one.run == nullptr) {
      return complain(hello, "lists " + name + " without a function",
                      "give it one, or leave the operation out, and its cases are skipped");
    }
    put_text(hello.operations[i], name);
  }
  hello.num_operations = static_cast<std::int32_t>(plugin.num_operations);
  return true;
}

}  // namespace

const zeroproof_plugin* load_library(const char* path, PluginHello& hello) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* said = ::dlerror();
    const std::string why = said == nullptr ? "?" : said;
    complain(hello, "cannot be loaded: " + why,
             why.find("undefined symbol") == std::string::npos
                 ? "name a shared library built for this machine"
                 : "define it (an extern __shared__ array by ZEROPROOF_DYNAMIC_SHARED, in a "
                   "namespace with a name)");
    return nullptr;
  }
  using Get = const zeroproof_plugin* (*)();
  const auto get = reinterpret_cast<Get>(::dlsym(library, "zeroproof_get_plugin"));
  const zeroproof_plugin* plugin = get == nullptr ? nullptr : get();
  const std::string ours = std::to_string(ZEROPROOF_PLUGIN_ABI);
  if (get == nullptr) {
    complain(hello, "does not export zeroproof_get_plugin",
             "define it as verification/interfaces/capi/zeroproof_plugin.h declares it, extern "
             "\"C\" and visible");
  } else if (plugin == nullptr) {
    complain(hello, "returned no description of itself",
             "let zeroproof_get_plugin return a zeroproof_plugin");
  } else if (plugin->abi != ZEROPROOF_PLUGIN_ABI) {
    complain(hello,
             "was built for version " + std::to_string(plugin->abi) +
                 " of the interface and this program has " + ours,
             "build it with this program's zeroproof_plugin.h");
  } else if (plugin->struct_size < ZEROPROOF_PLUGIN_LEAST_SIZE) {
    complain(hello, "describes itself in " + std::to_string(plugin->struct_size) + " bytes",
             "set struct_size to sizeof(zeroproof_plugin)");
  } else if (list_operations(*plugin, hello)) {
    const char* const name = plugin->name == nullptr ? "" : plugin->name;
    put_text(hello.name, std::string(name, ::strnlen(name, hello.name.size())));
    hello.device_type = device_type_of(*plugin);
    if (!is_device_type(hello.device_type, hello)) return nullptr;
    return plugin;
  }
  return nullptr;
}

zeroproof_function function_of(const zeroproof_plugin& plugin, const std::string& operation) {
  if (operation == whole_step_name) return step_of(plugin);
  for (std::uint64_t i = 0; i < plugin.num_operations; ++i) {
    if (operation == plugin.operations[i].operation) return plugin.operations[i].run;
  }
  return nullptr;
}

zeroproof_supports supports_of(const zeroproof_plugin& plugin) {
  return reaches(plugin, &zeroproof_plugin::supports) ? plugin.supports : nullptr;
}

std::int32_t device_type_of(const zeroproof_plugin& plugin) {
  const std::int32_t type =
      reaches(plugin, &zeroproof_plugin::device_type) ? plugin.device_type : 0;
  return type == ZEROPROOF_CPU ? 0 : type;
}

}  // namespace zeroproof::verification
