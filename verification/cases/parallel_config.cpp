#include "verification/cases/parallel_config.hpp"

#include <charconv>

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {
namespace {

/// The text after `prefix`; empty if the text does not begin with it.
std::optional<std::string> after(const std::string& text, const std::string& prefix) {
  if (text.rfind(prefix, 0) != 0) return std::nullopt;
  return text.substr(prefix.size());
}

std::int64_t count_of(const std::string& text, const std::string& what) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  ZP_CHECK(error == std::errc{} && rest == text.data() + text.size() && value >= 0,
           ErrorCode::config, what + " '" + text + "' is not a count", "it is part of a case id",
           "use digits, as in " + what + ":2");
  return value;
}

/// The shortest text that parses to the same number.
std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

double fraction_of(const std::string& text) {
  double value = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  ZP_CHECK(error == std::errc{} && rest == text.data() + text.size() && value >= 0 && value <= 1,
           ErrorCode::config, "offload '" + text + "' is not a fraction",
           "it is the fraction of a rank's state that is offloaded",
           "use a number from 0 to 1, as in offload:0.5");
  return value;
}

}  // namespace

std::string ParallelConfig::id() const {
  std::string text;
  if (order != MicroBatchOrder::by_stage) text += "/order:" + std::string(name(order));
  if (layout != LayoutKind::contract) text += "/layout:" + std::string(name(layout));
  if (grad_sum != GradSum::tree) text += "/sum:" + std::string(name(grad_sum));
  if (grid) text += "/grid:" + grid->id();
  if (instances != 1) text += "/instances:" + std::to_string(instances);
  if (persistent_numel != 0) text += "/persistent:" + std::to_string(persistent_numel);
  if (overlap) text += "/overlap";
  if (windows != Windows::off) text += "/windows:" + std::string(name(windows));
  if (transport != Transport::copies) text += "/transport:" + std::string(name(transport));
  if (!offload.on()) return text;
  const Offload plain;
  text += "/offload:" + shortest(offload.fraction);
  if (offload.order != plain.order) text += "/offload-order:" + std::string(name(offload.order));
  if (offload.place != plain.place) text += "/offload-place:" + std::string(name(offload.place));
  if (offload.chunk_numel != plain.chunk_numel)
    text += "/offload-chunk:" + std::to_string(offload.chunk_numel);
  if (!offload.overlap) text += "/offload-overlap:off";
  if (offload.grads) text += "/offload-grads:on";
  return text;
}

bool ParallelConfig::read(const std::string& part) {
  if (part == "overlap") {
    overlap = true;
  } else if (const auto text = after(part, "order:")) {
    order = parse_choice<MicroBatchOrder>("order", *text);
  } else if (const auto text = after(part, "layout:")) {
    layout = parse_choice<LayoutKind>("layout", *text);
  } else if (const auto text = after(part, "sum:")) {
    grad_sum = parse_choice<GradSum>("sum", *text);
  } else if (const auto text = after(part, "windows:")) {
    windows = parse_choice<Windows>("windows", *text);
  } else if (const auto text = after(part, "transport:")) {
    transport = parse_choice<Transport>("transport", *text);
  } else if (const auto text = after(part, "offload:")) {
    offload.fraction = fraction_of(*text);
  } else if (const auto text = after(part, "offload-order:")) {
    offload.order = parse_choice<OffloadOrder>("offload-order", *text);
  } else if (const auto text = after(part, "offload-place:")) {
    offload.place = parse_choice<OffloadPlace>("offload-place", *text);
  } else if (const auto text = after(part, "offload-chunk:")) {
    offload.chunk_numel = count_of(*text, "offload-chunk");
  } else if (part == "offload-overlap:off") {
    offload.overlap = false;
  } else if (part == "offload-grads:on") {
    offload.grads = true;
  } else if (const auto text = after(part, "grid:")) {
    grid = parse_grid(*text);
  } else if (const auto text = after(part, "instances:")) {
    const std::int64_t count = count_of(*text, "instances");
    ZP_CHECK(count >= 1 && count <= 4096, ErrorCode::config,
             "a case has " + *text + " optimizer instances", "there must be at least one",
             "use 1 to 4096");
    instances = static_cast<int>(count);
  } else if (const auto text = after(part, "persistent:")) {
    persistent_numel = count_of(*text, "persistent");
  } else {
    return false;
  }
  return true;
}

ProcessGrid ParallelConfig::grid_of(int world_size) const {
  const ProcessGrid result = grid.value_or(ProcessGrid{world_size, 1, 1});
  require_grid(result, world_size);
  ZP_CHECK(result.data_ranks() % instances == 0, ErrorCode::config,
           std::to_string(result.data_ranks()) + " data ranks do not divide into " +
               std::to_string(instances) + " optimizer instances",
           "all instances have the same number of ranks",
           "use a number of instances that divides them");
  return result;
}

}  // namespace zeroproof::verification
