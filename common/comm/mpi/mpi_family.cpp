#include "common/comm/mpi/mpi_family.hpp"

#include <algorithm>
#include <chrono>

#include "common/comm/mpi/mpi_pause.hpp"
#include "common/comm/mpi_session.hpp"

namespace zeroproof {

namespace {

/// Time for the MPI library to take over the text of a failure.
constexpr std::chrono::milliseconds last_words_limit{100};

}  // namespace

MpiFamily::MpiFamily() : world_(std::make_shared<MpiChannel>(MpiTransport())) {}

void MpiFamily::post(MpiMessage::Kind kind) {
  MpiMessage message;
  message.kind = kind;
  world_->mailbox.post(message);
}

void MpiFamily::tell(const Error& error, int channel, std::int64_t calls_before) {
  MpiMessage message;
  message.kind = MpiMessage::Kind::failure;
  message.channel = channel;
  message.call.sequence = calls_before;
  message.code = error.code();
  message.text = error.what();
  MpiMailbox& mailbox = world_->mailbox;
  try {
    const auto deadline = std::chrono::steady_clock::now() + last_words_limit;
    Pause pause;
    mailbox.post(message);
    for (int peer = 0; peer < world_->transport.world_size(); ++peer) {
      while (!mailbox.posted(peer) && std::chrono::steady_clock::now() < deadline) {
        mailbox.progress();
        pause();
      }
    }
  } catch (const Error&) {
    // The first failure is the one to report.
  }
}

std::optional<Error> MpiFamily::failure_for(int channel, std::int64_t sequence) const {
  if (std::optional<Error> own = failure_.get()) return own;
  const std::optional<MpiMailbox::Failure> received = world_->mailbox.failure();
  if (!received || (received->channel == channel && received->calls_before >= sequence))
    return std::nullopt;
  return received->error;
}

RankNames MpiFamily::names(const std::vector<int>& in_world, bool is_group) {
  RankNames names;
  if (is_group) names.in_world = in_world;
  const std::vector<std::string>& hosts = mpi_process_state().hosts;
  if (std::all_of(hosts.begin(), hosts.end(),
                  [&](const std::string& host) { return host == hosts[0]; }))
    return names;
  for (const int rank : in_world) names.hosts.push_back(hosts[rank]);
  return names;
}

}  // namespace zeroproof
