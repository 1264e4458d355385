#include "verification/interfaces/files/golden_call.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/compare/compare.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* no_workload = "op";  // in place of the workload of a trajectory's record

/// The results in a file, as a call; without results that are missing or of another kind, which are
/// named.
OpCall kept_results(const CallChoice& choice, const SafetensorsReader& reader,
                    std::vector<std::string>& missing) {
  const OpCall pristine(*choice.op, choice.shape);
  OpCall kept = pristine.fresh();
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    if (operand.access == Access::in) continue;
    const SafeTensorSpec wanted = wanted_output(operand, choice);
    const SafeTensor* tensor = reader.find(wanted.name);
    if (tensor == nullptr || tensor->dtype != wanted.dtype || tensor->shape != wanted.shape) {
      missing.push_back(operand.name);
      continue;
    }
    const TensorView view = kept.view(k);
    if (view.numel > 0) {
      reader.read(*tensor, 0,
                  {static_cast<std::byte*>(view.data), static_cast<std::size_t>(view.num_bytes())});
    }
  }
  return kept;
}

/// One row per result: `made` against the stored result, and its error against its bound. Results
/// with the bits of `correct` need no bound.
std::vector<GoldenCallRow> rows_of(const CallChoice& choice, const OpCall& kept, const OpCall& made,
                                   const OpCall& correct) {
  const Op& op = *choice.op;
  const OpCall pristine(op, choice.shape);
  std::vector<BoundRatio> ratios;
  if (op.bounds) ratios = bound_ratios(op, pristine, correct, made);
  std::vector<GoldenCallRow> rows;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (op.operands[k].access == Access::in) continue;
    const TensorView want = kept.view(k);
    const Comparison found = compare(want, made.view(k), 0, want.numel);
    GoldenCallRow row{op.operands[k].name, found.compared, found.differing, {}, {}};
    if (op.bounds) {
      row.ratio = ratios[k];
    } else if (!op.one_result.empty()) {
      row.why = "every order gives the same result, because " + op.one_result;
    } else {
      row.why = "no bound is derived for it";
    }
    rows.push_back(row);
  }
  return rows;
}

/// Runs the candidate. Returns its side effect, "" if none. Errors: config if it cannot.
std::string compute(const CallChoice& choice, const OpCandidate& candidate, OpCall& made) {
  const OpCall pristine = made.fresh();
  ZP_CHECK(candidate.has(*choice.op) && candidate.obstacle(*choice.op).empty(), ErrorCode::config,
           candidate.side() + " cannot compute " + choice.op->name,
           "the golden file is of this operation", "use a library that has the operation");
  try {
    candidate.function(*choice.op, "")(made);
    candidate.settle();
  } catch (const CandidateFailure& failure) {
    return failure.what();
  }
  return made.damage(pristine);
}

/// The results of a golden file, by the reference or by a candidate. Errors: config, also for
/// results that are not the reference's and in no legal order.
OpCall recorded_results(const CallChoice& choice, const OpCandidate* candidate) {
  OpCall reference = reference_results(choice);
  if (candidate == nullptr) return reference;
  OpCall made(*choice.op, choice.shape);
  GoldenCallCheck check;
  check.broken = compute(choice, *candidate, made);
  if (check.broken.empty()) check.rows = rows_of(choice, reference, made, reference);
  std::string wrong = check.broken;
  for (const GoldenCallRow& row : check.rows) {
    if (row.verdict() != GoldenVerdict::wrong || !wrong.empty()) continue;
    wrong = row.buffer + ": " + (row.ratio ? to_string(*row.ratio) : row.why);
  }
  ZP_CHECK(wrong.empty(), ErrorCode::config,
           "the results of " + candidate->side() + " are wrong: " + wrong,
           "a golden file has correct results alone",
           "run zeroproof verify " + choice.op->name + " with this library first");
  return made;
}

std::string recorder(const OpCandidate* candidate) {
  return candidate == nullptr ? "" : candidate->side();
}

}  // namespace

bool of_a_call(const GoldenRecord& record) { return record.workload == no_workload; }

GoldenVerdict GoldenCallRow::verdict() const {
  if (differing == 0) return GoldenVerdict::equal;
  return ratio && ratio->legal() ? GoldenVerdict::bits_changed : GoldenVerdict::wrong;
}

GoldenVerdict GoldenCallCheck::verdict() const {
  GoldenVerdict worst = broken.empty() ? GoldenVerdict::equal : GoldenVerdict::wrong;
  for (const GoldenCallRow& row : rows) worst = std::max(worst, row.verdict());
  return worst;
}

GoldenRecord record_golden_call(const CallRequest& request, const std::string& file,
                                const OpCandidate* candidate) {
  require_no_golden(file);
  const CallChoice choice = choose_call(request);
  const OpCall results = recorded_results(choice, candidate);
  write_call(choice, file, &results);
  GoldenRecord record;
  record.case_id = choice.text();
  record.workload = no_workload;
  record.recipe = choice.op->name;
  record.dtype = DType::fp32;
  record.steps = {1};
  record.recorded_by = recorder(candidate);
  write_golden_record(record, file, digest_of(choice, results), "recorded");
  return record;
}

GoldenCallCheck check_golden_call(const std::string& file, const OpCandidate* candidate) {
  GoldenCallCheck check;
  check.record = golden_record_of(file);
  ZP_CHECK(check.record.contract_version == contract_version, ErrorCode::config,
           "golden file " + file + " is of contract " +
               std::to_string(check.record.contract_version) + " and this program of contract " +
               std::to_string(contract_version),
           "another contract defines other bits",
           "use zeroproof golden update " + file + " --reason TEXT");
  const bool of_a_library = !check.record.recorded_by.empty();
  ZP_CHECK(candidate != nullptr || !of_a_library, ErrorCode::config,
           "golden file " + file + " has the bits of " + check.record.recorded_by,
           "the reference may have others", "add --plugin with the library to check");
  const SafetensorsReader reader = SafetensorsReader::open(file);
  const CallChoice choice = described_call(reader, file);
  check.call = choice.text();
  check.by = candidate == nullptr ? "the reference" : candidate->side();
  check.environment = changed_environment(check.record);
  std::vector<std::string> missing;
  const OpCall kept = kept_results(choice, reader, missing);
  ZP_CHECK(missing.empty(), ErrorCode::io,
           "golden file " + file + " has no after." + missing.front(),
           "the record lists it as a result", "restore the file, or record it again");
  OpCall made = OpCall(*choice.op, choice.shape);
  if (candidate == nullptr) {
    choice.op->reference(made);
  } else {
    check.broken = compute(choice, *candidate, made);
    if (!check.broken.empty()) return check;
  }
  check.rows = of_a_library ? rows_of(choice, kept, made, reference_results(choice))
                            : rows_of(choice, kept, made, kept);
  return check;
}

namespace {

/// ", at most 0.7 of it; judged: ..."
std::string measure_of(const BoundRatio& ratio) {
  const std::string measure =
      ratio.beyond == 0
          ? fmt::format("at most {:.3g} of it", ratio.worst)
          : fmt::format("{}[{}] {}", ratio.buffer, ratio.index,
                        ratio.violation.empty()
                            ? fmt::format("has {:.3g} times the error of its bound", ratio.worst)
                            : ratio.violation);
  return ", " + measure + "; judged: " + to_string(ratio.judged);
}

}  // namespace

std::string to_text(const GoldenCallCheck& check, const std::string& file) {
  std::string text = fmt::format("{}: {}, computed by {}\n", file, check.call, check.by);
  if (check.verdict() != GoldenVerdict::equal) {
    for (const std::string& change : check.environment) text += "  " + change + "\n";
  }
  text += fmt::format("{:<16} {:>14} {:>13}\n", "buffer", "elements", "differing");
  for (const GoldenCallRow& row : check.rows) {
    text += fmt::format("{:<16} {:>14} {:>13}  {}", row.buffer, grouped(row.elements),
                        grouped(row.differing), name(row.verdict()));
    if (row.differing > 0 && row.ratio) text += measure_of(*row.ratio);
    if (row.differing > 0 && !row.why.empty()) text += ": " + row.why;
    text += "\n";
  }
  if (!check.broken.empty()) text += check.by + ": " + check.broken + "\n";
  return text + std::string(name(check.verdict())) + "\n";
}

GoldenRecord update_golden_call(const std::string& file, const std::string& reason,
                                const OpCandidate* candidate) {
  GoldenRecord record = golden_record_of(file);
  ZP_CHECK((candidate == nullptr) == record.recorded_by.empty(), ErrorCode::config,
           "golden file " + file + " has the bits of " +
               (record.recorded_by.empty() ? "the reference" : record.recorded_by),
           "its history is that of one implementation",
           record.recorded_by.empty() ? "leave --plugin out, or record another file"
                                      : "add --plugin with the library");
  CallChoice choice;
  {
    const SafetensorsReader reader = SafetensorsReader::open(file);
    choice = described_call(reader, file);
  }
  const OpCall results = recorded_results(choice, candidate);
  record.recorded_by = recorder(candidate);
  write_call(choice, file, &results);
  write_golden_record(record, file, digest_of(choice, results), reason);
  return record;
}

std::string bounds_of_results(const std::string& call, const std::string& results) {
  const SafetensorsReader first = SafetensorsReader::open(call);
  if (!describes_call(first)) return {};
  const SafetensorsReader second = SafetensorsReader::open(results);
  const CallChoice choice = described_call(first, call);
  std::vector<std::string> missing;
  const OpCall kept = kept_results(choice, first, missing);
  const OpCall made = kept_results(choice, second, missing);
  std::string text;
  for (const GoldenCallRow& row : rows_of(choice, kept, made, kept)) {
    const bool there = std::find(missing.begin(), missing.end(), row.buffer) == missing.end();
    if (!there || row.differing == 0) continue;
    text += "after." + row.buffer + ": ";
    text += row.ratio && !row.ratio->violation.empty()
                ? fmt::format("in the second file [{}] {} ({})\n", row.ratio->index,
                              row.ratio->violation, name(row.verdict()))
            : row.ratio
                ? fmt::format(
                      "in the second file at most {:.3g} of the bound of any legal order ({})\n",
                      row.ratio->worst, name(row.verdict()))
                : row.why + "\n";
  }
  return text;
}

}  // namespace zeroproof::verification
