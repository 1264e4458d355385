#include "verification/tools/train/checkpoints/saved_formats.hpp"

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {
namespace {

StateFormats saved_formats(const CheckpointReader& checkpoint) try {
  RunConfig config;
  apply_toml(config, checkpoint.manifest().about.at("settings").get<std::string>(),
             checkpoint.label());
  return config.state_formats;
} catch (const JsonError& error) {
  fail(ErrorCode::damaged,
       checkpoint.label() + " does not specify the formats of its state: " + error.what(),
       "its codes cannot be decoded without them", "name one that zeroproof train wrote");
} catch (const Error& error) {
  throw Error(ErrorCode::damaged,
              checkpoint.label() + " does not specify the formats of its state: " + error.what());
}

}  // namespace

std::map<std::string, StateFormat> saved_scaled_formats(const CheckpointReader& checkpoint) {
  std::map<std::string, StateFormat> scaled;
  for (const StateSlot slot : all_state_slots) {
    if (!checkpoint.has(std::string(name(scales_of(slot))))) continue;
    const StateFormat format = saved_formats(checkpoint).of(slot);
    ZP_CHECK(
        has_scales(format), ErrorCode::damaged,
        checkpoint.label() + " has scales of " + std::string(name(slot)) + ", and settings without",
        "its codes cannot be decoded", "name one that zeroproof train wrote");
    scaled[std::string(name(slot))] = format;
  }
  return scaled;
}

}  // namespace zeroproof::verification
