// zeroproof-plugin, the process that holds a plug-in: loads the library, and computes calls until
// the connection closes. The library is code that may do anything in this process, so the program
// has no implementation that could compute in its place, neither the reference nor production.

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "verification/interfaces/capi/zeroproof_plugin.h"
#include "verification/interfaces/plugin/confinement.hpp"
#include "verification/interfaces/plugin/wire.hpp"
#include "verification/interfaces/plugin/worker/device.hpp"
#include "verification/interfaces/plugin/worker/library.hpp"

namespace zeroproof::verification {
namespace {

template <class Message>
void send_to_parent(const Message& message) {
  if (::send(plugin_socket, &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message)) {
    ::_exit(plugin_connection_lost);
  }
}

/// Ends the process if the parent has ended: a loop in a plug-in would otherwise run forever.
void end_with_parent() {
  std::thread([parent = ::getppid()] {
    while (::getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::_exit(0);
  }).detach();
}

/// The memory shared by both processes.
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

/// The library's answer about a call, without memory.
bool is_supported(const zeroproof_plugin& plugin, zeroproof_call call) {
  const zeroproof_supports asked = supports_of(plugin);
  if (asked == nullptr) return true;
  zeroproof_operand operands[most_plugin_operands];
  std::copy_n(call.operands, call.num_operands, operands);
  for (zeroproof_operand& operand : operands) operand.tensor.data = nullptr;
  call.operands = operands;
  call.stream = nullptr;
  return asked(&call) != 0;
}

/// Computes a call; with a device, waits for the enqueued work.
std::int32_t run_function(const zeroproof_plugin& plugin, const zeroproof_call& call, char* place,
                          WorkerDevice* device) {
  const std::int32_t returned = function_of(plugin, call.operation)(&call);
  if (device != nullptr) device->take(place);
  return returned;
}

PluginReply compute(const zeroproof_plugin& plugin, const PluginRequest& request, Shared& shared,
                    WorkerDevice* device) {
  zeroproof_operand operands[most_plugin_operands];
  zeroproof_setting settings[most_plugin_settings];
  std::int64_t shapes[most_plugin_operands][2], strides[most_plugin_operands][2];
  PluginReply reply;
  reply.number = request.number;
  char* const place = shared.at(request.place_begin, request.arena_bytes);
  char* const there = device == nullptr
                          ? place
                          : device->put(place, static_cast<std::int64_t>(request.place_bytes));
  const std::int32_t device_type = device == nullptr ? ZEROPROOF_CPU : device_type_of(plugin);
  for (int k = 0; k < request.num_operands; ++k) {
    const WireOperand& wire = request.operands[k];
    for (int d = 0; d < 2; ++d) shapes[k][d] = wire.shape[d];
    strides[k][0] = wire.ndim == 2 ? shapes[k][1] : 1;
    strides[k][1] = 1;
    void* data = there + (wire.offset - request.place_begin);
    operands[k] = {
        wire.name.data(),
        wire.access,
        {data, device_type, 0, wire.ndim, {wire.code, wire.bits, 1}, shapes[k], strides[k], 0}};
  }
  for (int k = 0; k < request.num_settings; ++k) {
    const TransportSetting& wire = request.settings[k];
    settings[k].name = wire.name.data();
    settings[k].kind = wire.kind;
    settings[k].value.word = wire.word;
  }
  const zeroproof_call call = {sizeof(zeroproof_call),
                               request.num_threads,
                               request.operation.data(),
                               request.num_operands,
                               request.num_settings,
                               operands,
                               settings,
                               device == nullptr ? nullptr : device->stream(),
                               reply.message.data(),
                               reply.message.size()};
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  reply.declined = !is_supported(plugin, call);
  if (!reply.declined) reply.returned = run_function(plugin, call, place, device);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (::sigismember(&before, signal) != ::sigismember(&after, signal)) reply.mask_changed = true;
  }
  put_text(reply.fp_problem, fp_environment_problem());
  std::fflush(nullptr);
  return reply;
}

/// The same; errors of the device are part of the reply.
PluginReply answer(const zeroproof_plugin& plugin, const PluginRequest& request, Shared& shared,
                   WorkerDevice* device) {
  try {
    return compute(plugin, request, shared, device);
  } catch (const Error& error) {
    PluginReply reply;
    reply.number = request.number;
    put_text(reply.device_problem, error.what());
    return reply;
  }
}

/// nullptr on failure; `hello` then has the reason.
std::unique_ptr<WorkerDevice> open_device(std::int32_t device_type, PluginHello& hello) {
  try {
    const std::string obstacle = device_obstacle(device_type);
    if (obstacle.empty()) return std::make_unique<WorkerDevice>();
    put_text(hello.problem, obstacle);
  } catch (const Error& error) {
    put_text(hello.problem, std::string("gets no device: ") + error.what());
  }
  put_text(hello.remedy,
           "build it with nvcc for build/zeroproof on a machine with a GPU, or with another "
           "compiler for build/zeroproof-sim");
  return nullptr;
}

/// Computes calls of a library; device_type 0 for one without a device. Does not return.
[[noreturn]] void serve(const char* library, std::int32_t device_type) {
  send_to_parent(plugin_greeting(ZP_VERSION));
  PluginHello hello;
  const std::unique_ptr<WorkerDevice> device =
      device_type == 0 ? nullptr : open_device(device_type, hello);
  forbid_processes();  // not earlier: a driver may have to start one
  end_with_parent();   // not earlier: these are rules of this thread and those that it starts
  const bool ready = device_type == 0 || device != nullptr;
  const zeroproof_plugin* plugin = ready ? load_library(library, hello) : nullptr;
  send_to_parent(hello);
  if (plugin == nullptr) ::_exit(0);  // skips the library's exit handlers
  Shared shared;
  PluginRequest request;
  for (;;) {
    const ssize_t length = ::recv(plugin_socket, &request, sizeof(request), 0);
    if (length == 0) ::_exit(0);
    if (length != sizeof(request)) ::_exit(plugin_connection_lost);
    send_to_parent(answer(*plugin, request, shared, device.get()));
  }
}

/// True if the parent has given this process the descriptor of a connection.
bool is_connected() {
  struct stat info {};
  return ::fstat(plugin_socket, &info) == 0 && S_ISSOCK(info.st_mode);
}

}  // namespace
}  // namespace zeroproof::verification

int main(int argc, char** argv) {
  if (argc != 3 || !zeroproof::verification::is_connected()) {
    std::fputs(
        "zeroproof: zeroproof-plugin was not started by zeroproof (it is the process of a "
        "plug-in); "
        "use zeroproof verify --plugin FILE\n",
        stderr);
    return 2;
  }
  zeroproof::verification::serve(argv[1], std::atoi(argv[2]));
}
