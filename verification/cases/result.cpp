#include "verification/cases/result.hpp"

#include "common/base/error.hpp"

namespace zeroproof::verification {

std::string describe(const BrokenMessage& m) {
  const auto hex = [](int byte) {
    const char* const digits = "0123456789abcdef";
    return std::string("0x") + digits[byte / 16] + digits[byte % 16];
  };
  return m.collective + " #" + std::to_string(m.number) + " of " + m.group + ", from rank " +
         std::to_string(m.from) + " to rank " + std::to_string(m.to) + ": byte " +
         std::to_string(m.first) + " of " + std::to_string(m.num_bytes) + " was sent as " +
         hex(m.sent) + " and received as " + hex(m.received) + "; " +
         (m.differing == 1 ? "no other byte differs"
                           : std::to_string(m.differing) + " bytes differ");
}

std::string describe(const Divergence& d) {
  if (!d.call.empty()) {
    const std::string element = d.shard_index < 0 ? "" : "[" + std::to_string(d.shard_index) + "]";
    return d.buffer + element + (d.buffer.empty() ? "" : " ") + d.what;
  }
  std::string text = "step " + std::to_string(d.step);
  if (d.phase) text += ", phase " + std::string(name(*d.phase));
  text += ", rank " + std::to_string(d.rank) + ": " + d.buffer + " " + d.what;
  if (!d.parameter.empty()) text += " at " + d.parameter + d.coordinates;
  if (d.message) text += ", received in " + describe(*d.message);
  return text;
}

Result training_result(const CaseSpec& spec) {
  Result result;
  result.id = spec.id();
  result.suite = "training";
  result.group = spec.workload;
  result.side = name(spec.implementation);
  result.exactness = "bitwise";
  if (spec.place.grad_sum == GradSum::native) result.held_to = "bound";
  result.training.emplace();
  return result;
}

CaseSpec training_spec(const Result& result) {
  const auto spec = parse_case_id(result.id);
  ZP_CHECK(spec.has_value(), ErrorCode::internal,
           "'" + result.id + "' is not a complete id of a training case",
           "settings are parsed from the id", "pass results of the suite training only");
  return *spec;
}

bool failed(Status status) {
  return status == Status::fail || status == Status::tampered || status == Status::error ||
         status == Status::crashed || status == Status::hung;
}

std::string failure_line(const Result& result) {
  std::string line = std::string(name(result.status)) + ": " + result.reason;
  if (!result.divergence) return line;
  const Divergence& d = *result.divergence;
  if (!d.call.empty()) line += ", " + d.call;
  return line + ", got " + d.candidate_value + ", want " + d.reference_value;
}

}  // namespace zeroproof::verification
