// zeroproof checkpoint: lists and verifies checkpoints, and writes the same state for other ranks
// or other programs.

#include <algorithm>
#include <cstdio>
#include <memory>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "verification/cases/config/flag_number.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/report/progress.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/train/checkpoints/checkpoint_diff.hpp"
#include "verification/tools/train/checkpoints/inspect_text.hpp"
#include "verification/tools/train/checkpoints/reshard.hpp"
#include "verification/tools/train/checkpoints/state_file.hpp"

namespace zeroproof::verification {
namespace {

struct CheckpointFlags {
  std::string action, out, world, grid, layout, instances, bucket, like, step;
  std::vector<std::string> paths;
  bool rows = false, allow_nonfinite = false;
};

const std::vector<std::string> actions = {"inspect", "verify", "reshard",
                                          "diff",    "export", "import"};

int inspect(const CheckpointFlags& flags) {
  const std::string& path = flags.paths.front();
  if (!parse_checkpoint_path(path).step) {
    const CheckpointRoot root(path);
    std::fputs(root.steps().empty() ? "" : folder_table(root).c_str(), stdout);
    std::printf("\n%s", inspect_text(*open_checkpoint(path), flags.rows).c_str());
    return 0;
  }
  std::fputs(inspect_text(*open_checkpoint(path), flags.rows).c_str(), stdout);
  return 0;
}

bool is_listed(const CheckpointRoot& root, std::int64_t step) {
  const std::vector<std::int64_t> steps = root.steps();
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

/// Every byte of all of them, or of the one that is named.
int verify(const CheckpointFlags& flags) {
  int code = 0;
  for (const std::string& path : flags.paths) {
    const CheckpointPath where = parse_checkpoint_path(path);
    const CheckpointRoot root(where.root);
    std::vector<std::int64_t> steps = root.steps();
    if (where.step) {
      const bool there = std::find(steps.begin(), steps.end(), *where.step) != steps.end();
      steps.assign(there ? 1 : 0, *where.step);
    }
    if (steps.empty()) open_checkpoint(path);  // throws the reason
    std::size_t removed = 0;
    for (const std::int64_t step : steps) {
      try {
        const CheckpointReader checkpoint(root, step);
        std::int64_t done = 0;
        {
          ProgressBar bar;
          checkpoint.verify([&](std::int64_t bytes) {
            done += bytes;
            bar.show(static_cast<double>(done) / static_cast<double>(checkpoint.num_bytes()),
                     checkpoint.label());
          });
        }
        std::printf("whole    %s, %lld bytes\n", checkpoint.label().c_str(),
                    static_cast<long long>(checkpoint.num_bytes()));
      } catch (const Error& error) {
        if (!where.step && error.code() == ErrorCode::io && !is_listed(root, step)) {
          std::printf("removed  %s/%s, by the run that saves here\n", root.path().c_str(),
                      checkpoint_name(step).c_str());
          ++removed;
          continue;
        }
        const bool later =
            error.code() == ErrorCode::unavailable;  // unknown here whether it is whole
        std::printf("%s %s\n", later ? "not read" : "damaged ", error.what());
        if (code != 7) code = later ? exit_code_of(error) : 7;
      }
    }
    ZP_CHECK(
        removed < steps.size(), ErrorCode::io,
        path + " had " + std::to_string(removed) + " checkpoints, and all were removed meanwhile",
        "the run that saves here keeps its newest ones", "run again");
  }
  return code;
}

int reshard(const CheckpointFlags& flags) {
  ZP_CHECK(!flags.out.empty(), ErrorCode::config, "checkpoint reshard was given without --out",
           "the new checkpoint needs a folder", "add -o DIR");
  const auto from = open_checkpoint(flags.paths.front());
  const SavedTraining training = saved_training(from->manifest().about, 1, from->label());
  CaseSpec spec = training.spec;
  const bool other = !flags.world.empty() || !flags.grid.empty();
  if (other) spec.place.grid.reset();
  if (!flags.grid.empty()) spec.place.grid = parse_grid(flags.grid);
  if (!flags.world.empty()) {
    spec.world = parse_world(flags.world);
    if (spec.place.grid) require_grid(*spec.place.grid, spec.world.size);
  } else if (spec.place.grid && other) {
    const int size = spec.place.grid->world_size();
    spec.world = {size == 1 ? WorldSpec::Kind::self : WorldSpec::Kind::threads, size};
  }
  if (!flags.layout.empty()) spec.place.layout = parse_choice<LayoutKind>("--layout", flags.layout);
  if (other) spec.place.instances = 1;
  if (!flags.instances.empty())
    spec.place.instances = flag_number<int>(flags.instances, "--instances", 1);
  if (!flags.bucket.empty())
    spec.bucket_numel = flag_number<std::int64_t>(flags.bucket, "--bucket", 1);
  std::string label;
  {
    ProgressBar bar;
    std::int64_t done = 0;
    label = reshard(*from, *training.experiment, spec, flags.out, [&](std::int64_t bytes) {
      done += bytes;
      bar.show(static_cast<double>(done) / static_cast<double>(from->num_bytes()), flags.out);
    });
  }
  std::printf("%s: as %s would have saved it\n", label.c_str(), spec.id().c_str());
  return 0;
}

int diff(const CheckpointFlags& flags) {
  ZP_CHECK(flags.paths.size() == 2, ErrorCode::config, "checkpoint diff was given one checkpoint",
           "diff compares two", "name another one");
  const auto first = open_checkpoint(flags.paths[0]), second = open_checkpoint(flags.paths[1]);
  const CheckpointDifference difference = compare_checkpoints(*first, *second);
  std::fputs(to_text(difference, flags.rows).c_str(), stdout);
  return difference.equal() ? 0 : 1;
}

int export_file(const CheckpointFlags& flags) {
  ZP_CHECK(!flags.out.empty(), ErrorCode::config, "checkpoint export was given without --out",
           "the state needs a file", "add -o FILE.safetensors");
  check_report_file(flags.out);
  const auto from = open_checkpoint(flags.paths.front());
  export_state(*from, flags.out);
  std::printf("%s: %s\n", from->label().c_str(), flags.out.c_str());
  return 0;
}

int import_file(const CheckpointFlags& flags) {
  ZP_CHECK(!flags.out.empty() && !flags.like.empty(), ErrorCode::config,
           std::string("checkpoint import was given without ") +
               (flags.out.empty() ? "--out" : "--like"),
           "a checkpoint has a folder, and settings that the file does not have",
           "add -o DIR and --like DIR, a checkpoint of the same training");
  const auto like = open_checkpoint(flags.like);
  std::int64_t step = like->manifest().step;
  if (!flags.step.empty()) {
    const auto parsed = parse_checkpoint_name(
        "step-" + std::string(8 - std::min<std::size_t>(8, flags.step.size()), '0') + flags.step);
    ZP_CHECK(parsed.has_value(), ErrorCode::config, "--step is '" + flags.step + "'",
             "expected a number of steps", "write digits, as in --step 50");
    step = *parsed;
  }
  std::printf(
      "%s: %s\n", flags.paths.front().c_str(),
      import_state(flags.paths.front(), *like, step, flags.out, flags.allow_nonfinite).c_str());
  return 0;
}

int checkpoint(const CheckpointFlags& flags) {
  ZP_CHECK(std::find(actions.begin(), actions.end(), flags.action) != actions.end(),
           ErrorCode::config, "'" + flags.action + "' is not an action of checkpoint",
           "it is not in the list", suggestion(flags.action, actions));
  ZP_CHECK(!flags.paths.empty(), ErrorCode::config,
           "checkpoint " + flags.action + " was given no name", "it reads a checkpoint",
           "name the --checkpoint folder of a zeroproof train");
  for (const std::string& path : flags.paths) {
    ZP_CHECK(!path.empty(), ErrorCode::config,
             "checkpoint " + flags.action + " was given an empty name", "it reads a checkpoint",
             "name the --checkpoint folder of a zeroproof train");
  }
  const bool many = flags.action == "verify" || flags.action == "diff";
  ZP_CHECK(
      many || flags.paths.size() == 1, ErrorCode::config,
      "checkpoint " + flags.action + " was given " + std::to_string(flags.paths.size()) + " names",
      "it reads one", "name one");
  const bool writes =
      flags.action == "reshard" || flags.action == "export" || flags.action == "import";
  ZP_CHECK(writes || flags.out.empty(), ErrorCode::config,
           "--out was given to checkpoint " + flags.action, "it writes nothing", "leave it out");
  const bool places = !flags.world.empty() || !flags.grid.empty() || !flags.layout.empty() ||
                      !flags.instances.empty() || !flags.bucket.empty();
  ZP_CHECK(
      flags.action == "reshard" || !places, ErrorCode::config,
      "--world, --grid, --layout, --instances or --bucket was given to checkpoint " + flags.action,
      "only reshard changes the layout", "leave it out");
  const bool imports = !flags.like.empty() || !flags.step.empty() || flags.allow_nonfinite;
  ZP_CHECK(flags.action == "import" || !imports, ErrorCode::config,
           "--like, --step or --allow-nonfinite was given to checkpoint " + flags.action,
           "only import takes them", "leave it out");
  if (flags.action == "inspect") return inspect(flags);
  if (flags.action == "verify") return verify(flags);
  if (flags.action == "reshard") return reshard(flags);
  if (flags.action == "diff") return diff(flags);
  return flags.action == "export" ? export_file(flags) : import_file(flags);
}

}  // namespace

void add_checkpoint(CommandSet& commands) {
  const Command command =
      commands.add("checkpoint",
                   "of zeroproof train: inspect DIR, verify DIR, reshard DIR -o DIR, "
                   "diff DIR DIR, export DIR -o FILE, import FILE --like DIR -o DIR");
  const auto flags = std::make_shared<CheckpointFlags>();
  command.required("action", flags->action, "inspect, verify, reshard, diff, export or import");
  command.words("path", flags->paths,
                "a folder of checkpoints (its newest) or DIR/step-N; import: a file");
  command.option("-o,--out", flags->out, "reshard, import: folder; export: safetensors file");
  command.option("--world", flags->world,
                 "reshard: self, threads:N, mpi:N (default: as the grid has ranks)");
  command.option("--grid", flags->grid,
                 "reshard: data x context x tensor parallel ranks, as in 2x1x4");
  command.option("--layout", flags->layout,
                 "reshard: ownership layout: contract, megatron, deepspeed_flat, ...");
  command.option("--instances", flags->instances, "reshard: optimizer instances");
  command.option("--bucket", flags->bucket, "reshard: bucket size in elements");
  command.option("--like", flags->like, "import: a checkpoint of the same training");
  command.option("--step", flags->step,
                 "import: step count of the state (default: that of --like)");
  command.flag("--allow-nonfinite", flags->allow_nonfinite,
               "import: take values that are not finite");
  command.flag("--rows", flags->rows, "inspect: the tensors too; diff: all buffers that differ");
  command.runs([flags] { return checkpoint(*flags); });
}

}  // namespace zeroproof::verification
