#include "verification/compare/judge/byte_account.hpp"

#include "verification/tools/plan/predict/memory_model.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof::verification {

namespace {

bool on_several_hosts(const Communicator& comm) {
  for (int rank = 1; rank < comm.world_size(); ++rank) {
    if (comm.host_of(rank) != comm.host_of(0)) return true;
  }
  return false;
}

}  // namespace

void ByteAccount::place(OptimizerSetup& setup) {
  // The prediction of windows is that of one machine.
  if (setup.windows != Windows::off && on_several_hosts(*setup.comm)) kept_ = false;
  if (!kept_) return;
  Communicator** const groups[] = {&setup.comm, &setup.replicas, &setup.tp};
  for (std::size_t g = 0; g < num_groups; ++g) {
    if (*groups[g] != nullptr) *groups[g] = &records_[g].emplace(**groups[g]);
  }
  setup_ = setup;
}

void ByteAccount::begin(const LayeredModel* layers) {
  if (!kept_ || begun_) return;
  begun_ = true;
  const PredictedStep shape = predicted_step(setup_, layers);
  applied_ = predict_traffic(shape, false);
  skipped_ = predict_traffic(shape, true);
  planned_ = predict_memory(shape);
  for (auto& record : records_) {
    if (record) record->reset();
  }
}

void ByteAccount::end_step(const DistributedOptimizer& candidate) {
  if (!kept_) return;
  ++steps_;
  held_ = candidate.memory();
  for (std::size_t g = 0; g < num_groups; ++g) {
    if (!records_[g] || records_[g]->world_size() == 1) continue;  // a group of one sends nothing
    const Traffic traffic = records_[g]->traffic();
    for (std::size_t c = 0; c < sent_[g].size(); ++c) {
      const bool set_up = static_cast<Collective>(c) == Collective::shared_window;
      if (!set_up) sent_[g][c] += traffic.of_kind[c];
    }
    records_[g]->reset();
  }
  for (const TrafficLine& line : (candidate.skipped() ? skipped_ : applied_).lines) {
    expected_[static_cast<std::size_t>(line.group)][static_cast<std::size_t>(line.collective)] +=
        {line.calls, line.messages, line.messages_received, line.sent_bytes, line.received_bytes};
  }
}

std::vector<RankBytes> ByteAccount::result(int rank) const {
  if (!kept_ || steps_ < 2) return {};
  RankBytes bytes;
  bytes.rank = rank;
  bytes.peak = {held_.total_peak, planned_.total_peak};
  for (std::size_t c = 0; c < held_.peak.size(); ++c) {
    bytes.memory.push_back(
        {std::string(name(static_cast<MemoryClass>(c))), {held_.peak[c], planned_.peak[c]}});
  }
  for (std::size_t g = 0; g < num_groups; ++g) {
    for (std::size_t c = 0; c < sent_[g].size(); ++c) {
      const TrafficEntry& is = sent_[g][c];
      const TrafficEntry& planned = expected_[g][c];
      if (is == TrafficEntry{} && planned == TrafficEntry{}) continue;
      bytes.sent.push_back({std::string(name(static_cast<CommGroup>(g))),
                            name(static_cast<Collective>(c)),
                            {is.calls, planned.calls},
                            {is.messages_sent, planned.messages_sent},
                            {is.bytes_sent, planned.bytes_sent}});
    }
  }
  return {bytes};
}

}  // namespace zeroproof::verification
