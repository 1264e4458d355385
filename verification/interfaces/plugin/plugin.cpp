#include "verification/interfaces/plugin/plugin.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/interfaces/capi/zeroproof_plugin.h"
#include "verification/interfaces/plugin/operations.hpp"
#include "verification/ops/op_candidate.hpp"

namespace zeroproof::verification {
namespace {

/// Time for which a call's outputs are watched before they are accepted, and those of the last
/// calls of a case.
constexpr auto moment = std::chrono::microseconds(200);
constexpr auto long_moment = std::chrono::milliseconds(20);

constexpr const char* why = "the plug-in cannot be judged";

std::string readable_file(const std::string& path) {
  struct stat info {};
  const bool there = ::stat(path.c_str(), &info) == 0 && ::access(path.c_str(), R_OK) == 0;
  ZP_CHECK(there, ErrorCode::config, "plug-in " + path + " cannot be read: " + std::strerror(errno),
           why, "name a shared library");
  ZP_CHECK(S_ISREG(info.st_mode), ErrorCode::config, "plug-in " + path + " is not a file", why,
           "name a shared library");
  return std::filesystem::absolute(path)
      .string();  // dlopen searches for a name without a slash in other folders
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 32 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.") == std::string::npos;
}

struct ElementFormat {
  std::uint8_t code, bits;
};

ElementFormat format_of(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * num_bytes(dtype));
  switch (dtype) {
    case DType::bf16:
      return {ZEROPROOF_BFLOAT, bits};
    case DType::e4m3:
      return {ZEROPROOF_FLOAT8_E4M3FN, bits};
    case DType::e5m2:
      return {ZEROPROOF_FLOAT8_E5M2, bits};
    case DType::e8m0:  // as codes: the interface has no name for the type
    case DType::u16:
    case DType::u32:
    case DType::u64:
      return {ZEROPROOF_UINT, bits};
    default:
      return {ZEROPROOF_FLOAT, bits};
  }
}

TransportSetting wire(const OpSetting& setting) {
  TransportSetting result{};
  put_text(result.name, setting.name);
  result.kind =
      static_cast<std::int32_t>(setting.value.index());  // in the order of ZEROPROOF_REAL, ...
  result.word =
      std::visit([](auto value) { return std::bit_cast<std::uint64_t>(value); }, setting.value);
  return result;
}

WireOperand wire(const PluginOperand& operand, std::uint64_t offset) {
  WireOperand result{};
  put_text(result.name, operand.name);
  const ElementFormat format = format_of(operand.view.dtype);
  result.code = format.code;
  result.bits = format.bits;
  result.access =
      operand.read ? (operand.written ? ZEROPROOF_IN_OUT : ZEROPROOF_IN) : ZEROPROOF_OUT;
  const std::int64_t width = std::max<std::int64_t>(1, operand.per_element);
  result.ndim = width > 1 ? 2 : 1;
  result.shape = {operand.view.numel / width, width > 1 ? width : 1};
  result.offset = offset;
  return result;
}

}  // namespace

std::unique_ptr<PluginProcess> Plugin::new_process() const {
  return std::make_unique<PluginProcess>(worker_.empty() ? plugin_worker(device_type_) : worker_,
                                         path_, arena_.descriptor(), limits_, device_type_);
}

PluginHello Plugin::first_hello() {
  PluginHello hello;
  try {
    process_ = new_process();
    hello = process_->hello();
  } catch (const CandidateFailure& failure) {
    fail(ErrorCode::config, path_ + " cannot be loaded as a plug-in: " + failure.what(), why,
         "load it in a separate program first");
  }
  const std::string problem = get_text(hello.problem);
  ZP_CHECK(problem.empty(), ErrorCode::config, "plug-in " + path_ + " " + problem, why,
           get_text(hello.remedy));
  // Here: a library may send the message itself.
  ZP_CHECK(is_name(get_text(hello.name)), ErrorCode::config,
           "plug-in " + path_ + " has no name that is valid in a case id", why,
           "use 1 to 32 lower-case letters, digits, '_', '-' and '.'");
  return hello;
}

Plugin::Plugin(const std::string& path, const PluginLimits& limits, std::string worker)
    : path_(readable_file(path)), worker_(std::move(worker)), limits_(limits) {
  PluginHello hello = first_hello();
  if (hello.device_type != 0) {  // the device must be opened before code of the library runs
    device_type_ = hello.device_type;
    hello = first_hello();
  }
  name_ = get_text(hello.name);
  makes_steps_ = hello.makes_steps;
  for (int i = 0; i < std::clamp(hello.num_operations, 0, most_plugin_operations); ++i) {
    const std::string operation = get_text(hello.operations[i]);
    ZP_CHECK(is_plugin_operation(operation), ErrorCode::config,
             "plug-in " + name_ + " lists the operation '" + operation + "'",
             "the interface does not have it",
             suggestion(operation, plugin_operations(),
                        "verification/interfaces/plugin/README.md lists all operations"));
    ZP_CHECK(!has(operation), ErrorCode::config,
             "plug-in " + name_ + " lists " + operation + " twice", "an operation has one function",
             "leave out one of them");
    operations_.push_back(operation);
  }
}

bool Plugin::has(const std::string& operation) const {
  return std::find(operations_.begin(), operations_.end(), operation) != operations_.end();
}

void Plugin::start() {
  arena_.forget();
  std::unique_ptr<PluginProcess> process = new_process();
  const PluginHello hello = process->hello();
  if (get_text(hello.name) != name_)
    give_up(Status::error,
            "the plug-in could not be loaded a second time: " + get_text(hello.problem));
  process_ = std::move(process);
}

void Plugin::give_up(Status status, const std::string& what) {
  process_.reset();
  throw CandidateFailure(status, what);
}

PluginRequest Plugin::request_for(const PluginCall& call) {
  PluginRequest request;
  ZP_CHECK(
      call.operands.size() <= most_plugin_operands && call.settings.size() <= most_plugin_settings,
      ErrorCode::internal, call.operation + " has more operands or settings than a plug-in gets",
      "the interface has a limit", "report this as a defect");
  const std::vector<std::uint64_t> offsets = arena_.put(call.operands);
  request.arena_bytes = arena_.num_bytes();
  request.place_begin = arena_.place_begin();
  request.place_bytes = arena_.place_bytes();
  put_text(request.operation, call.operation);
  request.num_threads = call.num_threads;
  request.num_operands = static_cast<std::int32_t>(call.operands.size());
  request.num_settings = static_cast<std::int32_t>(call.settings.size());
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    request.operands[k] = wire(call.operands[k], offsets[call.in_place && k == 0 ? 1 : k]);
  }
  for (std::size_t k = 0; k < call.settings.size(); ++k)
    request.settings[k] = wire(call.settings[k]);
  return request;
}

void Plugin::check_reply(const PluginReply& reply, const PluginCall& call) {
  const std::string during = " in " + call.operation;
  if (reply.returned != 0) {
    const std::string message = get_text(reply.message);
    give_up(Status::error, "the plug-in returned " + std::to_string(reply.returned) + during +
                               (message.empty() ? "" : ": " + message));
  }
  const std::string fp = get_text(reply.fp_problem);
  if (!fp.empty()) {
    give_up(Status::fail,
            "the plug-in left the floating-point environment changed" + during + ": " + fp);
  }
  if (reply.mask_changed)
    give_up(Status::fail, "the plug-in left the signal mask changed" + during);
  if (!reply.declined) return;
  const std::string why_not = get_text(reply.message);  // the process continues
  throw CandidateFailure(Status::skipped, "the plug-in does not support this call of " +
                                              call.operation +
                                              (why_not.empty() ? "" : ": " + why_not));
}

void Plugin::call(const PluginCall& call) {
  const std::lock_guard lock(one_at_a_time_);
  if (!process_) start();
  const std::string late = arena_.changed_since(PluginArena::Whose::all);
  if (!late.empty())
    give_up(Status::tampered, "the plug-in wrote " + late + " after a call had returned");
  PluginReply reply;
  try {
    reply = process_->call(request_for(call));
  } catch (const CandidateFailure&) {
    process_.reset();
    throw;
  }
  const std::string device_problem = get_text(reply.device_problem);
  if (!device_problem.empty())
    give_up(Status::crashed,
            "the plug-in's work on the device ended in " + call.operation + ": " + device_problem);
  const PluginArena::Damage damage = arena_.take(call.operands);
  if (!damage.what.empty())
    give_up(damage.of_inputs ? Status::tampered : Status::fail, damage.what);
  check_reply(reply, call);
  std::this_thread::sleep_for(moment);
  const std::string now = arena_.changed_since(PluginArena::Whose::last);
  if (!now.empty())
    give_up(Status::tampered, "the plug-in wrote " + now + " after the call had returned");
}

void Plugin::end() {
  const std::lock_guard lock(one_at_a_time_);
  process_.reset();
}

void Plugin::settle() {
  const std::lock_guard lock(one_at_a_time_);
  if (!process_) return;
  std::this_thread::sleep_for(long_moment);
  try {
    process_->expect_silence();
    arena_.expect_own_size();
  } catch (const CandidateFailure&) {
    process_.reset();
    throw;
  }
  const std::string late = arena_.changed_since(PluginArena::Whose::all);
  if (!late.empty())
    give_up(Status::tampered, "the plug-in wrote " + late + " after a call had returned");
}

}  // namespace zeroproof::verification
