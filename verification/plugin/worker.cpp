// The other end of a plug-in's connection. Everything here shares its process with code that may do anything.

#include "verification/plugin/worker.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "common/base/fpenv.hpp"
#include "verification/capi/zeroproof_plugin.h"
#include "verification/plugin/confinement.hpp"
#include "verification/plugin/wire.hpp"

namespace zeroproof::verification {
namespace {

template <class Message>
void tell(const Message& message) {
  if (::send(plugin_socket, &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message)) {
    ::_exit(plugin_connection_lost);
  }
}

/// A loop in a plug-in would go on when nobody waits for it any more.
void end_with_parent() {
  std::thread([parent = ::getppid()] {
    while (::getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::_exit(0);
  }).detach();
}

bool is_name(const char* name) {
  const std::string text = name == nullptr ? "" : std::string(name, ::strnlen(name, 64));
  if (text.empty() || text.size() > 32) return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.") == std::string::npos;
}

bool complain(PluginHello& hello, const std::string& problem, const std::string& remedy) {
  put_text(hello.problem, problem);
  put_text(hello.remedy, remedy);
  return false;
}

bool list_operations(const zeroproof_plugin& plugin, PluginHello& hello) {
  if (plugin.operations == nullptr || plugin.num_operations == 0) {
    return complain(hello, "has no operations", "list at least one in zeroproof_plugin::operations");
  }
  if (plugin.num_operations > most_plugin_operations) {
    return complain(hello, "lists " + std::to_string(plugin.num_operations) + " operations",
                    "list each once; there are fewer");
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

/// nullptr if `hello` has a problem.
const zeroproof_plugin* load(const char* path, PluginHello& hello) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    complain(hello, std::string("cannot be loaded: ") + (why == nullptr ? "?" : why),
             "name a shared library built for this machine");
    return nullptr;
  }
  using Get = const zeroproof_plugin* (*)();
  const auto get = reinterpret_cast<Get>(::dlsym(library, "zeroproof_get_plugin"));
  const zeroproof_plugin* plugin = get == nullptr ? nullptr : get();
  const std::string ours = std::to_string(ZEROPROOF_PLUGIN_ABI);
  if (get == nullptr) {
    complain(hello, "does not export zeroproof_get_plugin",
             "define it as verification/capi/zeroproof_plugin.h declares it, extern \"C\" and visible");
  } else if (plugin == nullptr) {
    complain(hello, "returned no description of itself",
             "let zeroproof_get_plugin return a zeroproof_plugin");
  } else if (plugin->abi != ZEROPROOF_PLUGIN_ABI) {
    complain(hello,
             "was built for version " + std::to_string(plugin->abi) +
                 " of the interface and this program has " + ours,
             "build it with this program's zeroproof_plugin.h");
  } else if (plugin->struct_size < sizeof(zeroproof_plugin)) {
    complain(hello, "describes itself in " + std::to_string(plugin->struct_size) + " bytes",
             "set struct_size to sizeof(zeroproof_plugin)");
  } else if (!is_name(plugin->name)) {
    complain(hello, "has no name that can stand in a case id",
             "use 1 to 32 lower-case letters, digits, '_', '-' and '.'");
  } else if (list_operations(*plugin, hello)) {
    put_text(hello.name, plugin->name);
    return plugin;
  }
  return nullptr;
}

/// The memory both processes see.
class Shared {
 public:
  char* at(std::uint64_t offset, std::uint64_t bytes) {
    if (bytes != bytes_) {
      if (memory_ != nullptr) ::munmap(memory_, bytes_);
      memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, plugin_memory, 0);
      if (memory_ == MAP_FAILED) ::_exit(plugin_connection_lost);
      bytes_ = bytes;
    }
    return static_cast<char*>(memory_) + offset;
  }

 private:
  void* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
};

zeroproof_function function_of(const zeroproof_plugin& plugin, const std::string& operation) {
  for (std::uint64_t i = 0; i < plugin.num_operations; ++i) {
    if (operation == plugin.operations[i].operation) return plugin.operations[i].run;
  }
  return nullptr;
}

PluginReply compute(const zeroproof_plugin& plugin, const PluginRequest& request, Shared& shared) {
  zeroproof_operand operands[most_plugin_operands];
  zeroproof_setting settings[most_plugin_settings];
  std::int64_t shapes[most_plugin_operands][2], strides[most_plugin_operands][2];
  for (int k = 0; k < request.num_operands; ++k) {
    const WireOperand& wire = request.operands[static_cast<std::size_t>(k)];
    for (int d = 0; d < 2; ++d) shapes[k][d] = wire.shape[static_cast<std::size_t>(d)];
    strides[k][0] = wire.ndim == 2 ? shapes[k][1] : 1;
    strides[k][1] = 1;
    void* data = shared.at(wire.offset, request.arena_bytes);
    operands[k] = {wire.name.data(),
                   wire.access,
                   {data, ZEROPROOF_CPU, 0, wire.ndim, {wire.code, wire.bits, 1}, shapes[k], strides[k], 0}};
  }
  for (int k = 0; k < request.num_settings; ++k) {
    const WireSetting& wire = request.settings[static_cast<std::size_t>(k)];
    settings[k].name = wire.name.data();
    settings[k].kind = wire.kind;
    settings[k].value.word = wire.word;
  }
  PluginReply reply;
  const zeroproof_call call = {sizeof(zeroproof_call),
                               request.num_threads,
                               request.operation.data(),
                               request.num_operands,
                               request.num_settings,
                               operands,
                               settings,
                               nullptr,
                               reply.message.data(),
                               reply.message.size()};
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  reply.returned = function_of(plugin, get_text(request.operation))(&call);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (::sigismember(&before, signal) != ::sigismember(&after, signal)) reply.mask_changed = true;
  }
  put_text(reply.fp_problem, fp_environment_problem());
  std::fflush(nullptr);
  return reply;
}

}  // namespace

int plugin_worker(int argc, char** argv) {
  if (argc != 3) return plugin_connection_lost;
  end_with_parent();
  forbid_processes();
  PluginHello hello;
  const zeroproof_plugin* plugin = load(argv[2], hello);
  tell(hello);
  if (plugin == nullptr) ::_exit(0);  // what the library registered for an exit does not run
  Shared shared;
  PluginRequest request;
  for (;;) {
    const ssize_t length = ::recv(plugin_socket, &request, sizeof(request), 0);
    if (length == 0) ::_exit(0);
    if (length != sizeof(request)) ::_exit(plugin_connection_lost);
    tell(compute(*plugin, request, shared));
  }
}

}  // namespace zeroproof::verification
