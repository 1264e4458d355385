#include "verification/tools/train/checkpoints/opened_checkpoint.hpp"

#include <filesystem>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/tools/train/training_identity.hpp"

namespace zeroproof::verification {

CheckpointPath parse_checkpoint_path(const std::string& path) {
  std::filesystem::path whole(path);
  if (!whole.has_filename()) whole = whole.parent_path();  // "runs/"
  const auto step = parse_checkpoint_name(whole.filename().string());
  if (!step) return {path, std::nullopt};
  const std::string root = whole.parent_path().string();
  return {root.empty() ? "." : root, step};
}

std::unique_ptr<CheckpointReader> open_checkpoint(const std::string& path) {
  const CheckpointPath where = parse_checkpoint_path(path);
  const CheckpointRoot root(where.root);
  if (where.step) return std::make_unique<CheckpointReader>(root, *where.step);
  std::optional<std::int64_t> removed;  // by the run that saves here
  for (;;) {
    const std::vector<std::int64_t> steps = root.steps();
    ZP_CHECK(!steps.empty(), ErrorCode::io, path + " has no checkpoint", "there is nothing to read",
             "name the --checkpoint folder of a zeroproof train");
    try {
      return std::make_unique<CheckpointReader>(root, steps.back());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::io || (removed && *removed >= steps.back())) throw;
      removed = steps.back();
    }
  }
}

namespace {

/// Returns the result of `make` for the content of `label`. Content that it refuses was not written
/// by this version.
template <class Make>
auto said_by(const std::string& label, const Make& make) try {
  return make();
} catch (const Error& error) {
  if (error.code() != ErrorCode::config) throw;
  throw Error(ErrorCode::damaged, label + " does not describe its training: " + error.what());
}

}  // namespace

SavedTraining saved_training(const Json& about, std::int64_t steps, const std::string& label) {
  SavedTraining saved;
  std::string text_digest;
  try {
    const auto text = [&](const char* key) { return about.at(key).get<std::string>(); };
    const std::string workload = text("workload"), gradients = text("gradients");
    const auto spec = said_by(label, [&] { return parse_case_id(text("place")); });
    if (!spec) throw JsonError("its place is not a case id");
    saved.spec = *spec;
    RunConfig config = gradients.empty()
                           ? said_by(label, [&] { return workload_defaults(workload); })
                           : recorded_defaults(gradients);
    said_by(label, [&] { apply_toml(config, text("settings"), label); });
    const DType dtype = said_by(label, [&] { return parse_param_dtype(text("dtype")); });
    take_place(config, saved.spec);
    const std::string file = text("text_file");
    config.text = !file.empty() || !gradients.empty() ? file : workload_defaults(workload).text;
    config.steps = steps;
    text_digest = text("text");
    saved.experiment = std::make_unique<Experiment>(
        workload, config, dtype, gradients.empty() ? load_text(config) : recorded_text(gradients),
        text("recipe"));
  } catch (const JsonError& error) {
    fail(ErrorCode::damaged, label + " does not describe its training: " + error.what(),
         "its steps cannot be recomputed", "name one that zeroproof train wrote");
  }
  ZP_CHECK(to_hex(saved.experiment->text_digest()) == text_digest, ErrorCode::config,
           label + " was trained on other bytes than its input has now",
           "its gradients would differ", "put its text or its recorded gradients back");
  return saved;
}

}  // namespace zeroproof::verification
