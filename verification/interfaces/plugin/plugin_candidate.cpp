#include "verification/interfaces/plugin/plugin_candidate.hpp"

#include <algorithm>
#include <cstring>

#include "verification/interfaces/plugin/operations.hpp"

namespace zeroproof::verification {
namespace {

bool is_in_place(const std::vector<OpSetting>& settings) {
  return std::any_of(settings.begin(), settings.end(), [](const OpSetting& setting) {
    return setting.name == "in_place" && setting.value == decltype(setting.value)(std::int64_t{1});
  });
}

void run_call(Plugin& plugin, const Op& op, OpCall& call) {
  PluginCall foreign;
  foreign.operation = op.name;
  foreign.num_threads = call.exec.num_threads;
  if (op.settings) foreign.settings = op.settings(call);
  foreign.in_place = is_in_place(foreign.settings);
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const Operand& operand = op.operands[k];
    const std::vector<std::int64_t> shape = shape_of(operand, call.numel(), foreign.settings);
    foreign.operands.push_back({operand.name, call.view(k), operand.access != Access::out,
                                operand.access != Access::in, shape.size() > 1 ? shape[1] : 1});
  }
  if (foreign.in_place) {  // the one buffer holds the input first, and then the output
    PluginOperand& both = foreign.operands[1];
    if (both.view.numel > 0) {
      std::memcpy(both.view.data, call.view(0).data,
                  static_cast<std::size_t>(both.view.num_bytes()));
    }
    both.read = true;
  }
  plugin.call(foreign);
}

class PluginCandidate final : public OpCandidate {
 public:
  explicit PluginCandidate(std::shared_ptr<Plugin> plugin) : plugin_(std::move(plugin)) {}

  std::string id() const override { return "plugin/" + plugin_->name(); }
  std::string side() const override { return "plugin " + plugin_->name(); }
  Implementation kind() const override { return Implementation::plugin; }
  bool has(const Op& op) const override { return is_plugin_operation(op.name); }
  bool may_remember() const override { return true; }
  void settle() const override { plugin_->settle(); }

  std::string obstacle(const Op& op) const override {
    return plugin_->has(op.name)
               ? ""
               : "the plug-in " + plugin_->name() + " does not have the operation";
  }

  OpFunction function(const Op& op, const std::string&) const override {
    return [plugin = plugin_, &op](OpCall& call) { run_call(*plugin, op, call); };
  }

 private:
  std::shared_ptr<Plugin> plugin_;
};

}  // namespace

std::shared_ptr<const OpCandidate> plugin_candidate(std::shared_ptr<Plugin> plugin) {
  return std::make_shared<PluginCandidate>(std::move(plugin));
}

}  // namespace zeroproof::verification
