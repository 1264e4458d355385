#include "common/io/json.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/tools/plan/counts.hpp"
#include "verification/tools/plan/report.hpp"

namespace zeroproof::verification {
namespace {

Json classes(const BytesByClass& bytes) {
  Json json = Json::object();
  for (int c = 0; c < num_memory_classes; ++c) {
    json[std::string(name(static_cast<MemoryClass>(c)))] = bytes[c];
  }
  return json;
}

Json traffic(const StepTraffic& traffic) {
  Json lines = Json::array();
  for (const TrafficLine& line : traffic.lines) {
    lines.push_back({{"phase", name(line.phase)},
                     {"over", name(line.group)},
                     {"collective", name(line.collective)},
                     {"of", line.what},
                     {"calls", line.calls},
                     {"messages", line.messages},
                     {"messages_received", line.messages_received},
                     {"sent_bytes", line.sent_bytes},
                     {"received_bytes", line.received_bytes}});
  }
  return lines;
}

Json rank(const RankPlan& rank) {
  Json json = {{"data_rank", rank.data_rank},
               {"shard_numel", rank.shard_numel},
               {"after_step", classes(rank.memory.now)},
               {"peak", classes(rank.memory.peak)},
               {"at_peak_of_sum", classes(rank.at_peak)},
               {"total_after_step", rank.memory.total_now},
               {"total_peak", rank.memory.total_peak},
               {"traffic", traffic(rank.traffic)}};
  if (rank.offloaded_numel == 0) return json;
  json["offload"] = {{"elements", rank.offloaded_numel},
                     {"host_bytes", rank.memory.offloaded_host},
                     {"file_bytes", rank.memory.offloaded_file},
                     {"step",
                      {{"grads_down", rank.offload.grads_down},
                       {"params_up", rank.offload.params_up},
                       {"file_read", rank.offload.file_read},
                       {"file_written", rank.offload.file_written}}}};
  return json;
}

Json measured_rank(const MemoryUse& memory) {
  return {{"peak", classes(memory.peak)},
          {"total_after_step", memory.total_now},
          {"total_peak", memory.total_peak}};
}

Json measured(const StagePlan& stage) {
  const MeasuredStage& m = *stage.measured;
  Json largest = measured_rank(m.largest);
  largest["messages"] = m.messages;
  largest["sent_bytes"] = m.sent_bytes;
  return {{"smallest", measured_rank(m.smallest)},
          {"largest", std::move(largest)},
          {"bytes_apart", bytes_apart(stage)}};
}

Json matrices(const MatrixBalance& m) {
  Json json = {
      {"matrices", m.matrices},
      {"numel", m.numel},
      {"computed", {{"least", m.least_computed}, {"most", m.most_computed}}},
      {"products",
       {{"least", m.least_products}, {"mean", m.mean_products}, {"most", m.most_products}}},
      {"whole_bytes", {{"least", m.least_whole_bytes}, {"most", m.most_whole_bytes}}},
      {"work_bytes", {{"least", m.least_work_bytes}, {"most", m.most_work_bytes}}}};
  if (m.most_numel_over_mean > 0) json["most_numel_over_mean"] = m.most_numel_over_mean;
  return json;
}

Json stage(const StagePlan& stage) {
  const StepTime& t = stage.time;
  Json json = {{"stage", stage.stage},
               {"ranks_computed", stage.ranks_computed},
               {"smallest", rank(stage.smallest)},
               {"largest", rank(stage.largest)},
               {"papers",
                {{"params", stage.papers.params},
                 {"grads", stage.papers.grads},
                 {"master", stage.papers.master},
                 {"moments", stage.papers.moments},
                 {"total", stage.papers.total()}}},
               {"model_time_us",
                {{"reduce", t.reduce_us},
                 {"norm", t.norm_us},
                 {"update", t.update_us},
                 {"gather", t.gather_us},
                 {"other", t.other_us},
                 {"of_which_latency", t.latency_us},
                 {"sum", t.total_us()}}}};
  if (stage.measured) json["measured"] = measured(stage);
  if (stage.matrices) json["matrices"] = matrices(*stage.matrices);
  return json;
}

Json counts(const std::vector<Count>& counts) {
  Json list = Json::array();
  for (const Count& count : counts) {
    list.push_back({{"what", count.what},
                    {"formula", count.formula},
                    {"bytes", count.bytes},
                    {"right", count.right},
                    {"counts", count.counts},
                    {"why", count.why}});
  }
  return list;
}

}  // namespace

std::string plan_json(const Plan& plan) {
  const PlanSettings& s = plan.settings;
  Json stages = Json::array();
  for (const StagePlan& one : plan.stages) stages.push_back(stage(one));
  Json json = {{"schema", "zeroproof-plan/1"},
               {"program", std::string("zeroproof ") + ZP_VERSION},
               {"numeric_contract", contract_version},
               {"model",
                {{"source", plan.model},
                 {"parameters", plan.numel},
                 {"parameters_of_tp_rank", plan.tp_numel},
                 {"padded_numel", plan.padded_numel},
                 {"tensors", plan.num_tensors},
                 {"units", plan.num_units},
                 {"largest_unit", plan.largest_unit}}},
               {"settings",
                {{"grid", s.grid.id()},
                 {"instances", s.instances},
                 {"clip_groups", s.clip_groups},
                 {"rule", name(s.hyper.rule)},
                 {"param_dtype", name(s.param_dtype)},
                 {"grad_dtype", name(s.grad_dtype)},
                 {"exp_avg_dtype", name(s.state_formats.exp_avg)},
                 {"exp_avg_sq_dtype", name(s.state_formats.exp_avg_sq)},
                 {"master_dtype", name(s.state_formats.master)},
                 {"micro_batches", s.micro_batches},
                 {"order", name(s.order)},
                 {"windows", name(s.windows)},
                 {"space", s.space == Space::host ? "host" : "device"},
                 {"bucket_numel", s.bucket_numel},
                 {"alpha_us", s.machine.alpha_us},
                 {"beta_gb_per_s", s.machine.beta_gbs},
                 {"memory_gb_per_s", s.machine.memory_gbs}}},
               {"stages", stages},
               {"counts",
                {{"zero_paper", counts(zero_paper_counts(plan))},
                 {"deepspeed", counts(deepspeed_counts(plan))},
                 {"megatron", counts(megatron_counts(plan))},
                 {"circulating", counts(circulating_counts(plan))}}}};
  if (traits_of(s.hyper.rule).matrices) {
    json["settings"]["matrix_owners"] = name(s.matrix_owners);
    json["settings"]["matrix_tensor_parallel"] = name(s.matrix_tensor_parallel);
    for (const MatrixSplitRule& split : s.matrix_splits)
      json["settings"]["matrix_splits"].push_back(split.name);
  }
  if (has_scales(s.param_dtype)) {
    json["settings"]["scaling"] = {{"recipe", name(s.scaling.recipe)},
                                   {"columnwise", s.scaling.columnwise}};
    if (s.scaling.recipe == ScaleRecipe::blockwise)
      json["settings"]["scaling"]["blocks"] = name(s.scaling.blocks);
    if (keeps_history(s.scaling)) json["settings"]["scaling"]["history"] = s.scaling.history;
  }
  if (s.offload.on()) {
    json["settings"]["offload"] = {
        {"fraction", s.offload.fraction}, {"order", name(s.offload.order)},
        {"place", name(s.offload.place)}, {"chunk_numel", s.offload.chunk_numel},
        {"overlap", s.offload.overlap},   {"grads", s.offload.grads}};
  }
  return json.dump(2) + "\n";
}

}  // namespace zeroproof::verification
