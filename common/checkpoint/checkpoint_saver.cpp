#include "common/checkpoint/checkpoint_saver.hpp"

#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/checkpoint/checkpoint_state.hpp"
#include "common/checkpoint/rank_report.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_writer.hpp"
#include "common/step/state_buffers.hpp"

namespace zeroproof {

/// A checkpoint in progress, on one rank.
struct CheckpointSaver::Pending {
  CheckpointManifest
      manifest;      ///< tensors and content; files and pieces on rank 0 after the gather
  std::string text;  ///< of the manifest, on rank 0 after the gather
  UnfinishedCheckpoint unfinished;
  std::vector<CheckpointPiece> pieces;     ///< pieces of this rank
  std::vector<Span<const float>> values;   ///< values of each piece
  std::deque<std::vector<float>> widened;  ///< decoded values of pieces stored as codes (R25)
  std::unique_ptr<CheckpointFile> file;    ///< file of this rank, until it is durable
  RankReport report;                       ///< sent to rank 0
  bool commits = false;                    ///< all ranks have written
  RankReport commit;                       ///< on rank 0, result of the commit
  std::thread worker;
  std::atomic<bool> idle{false};  ///< the worker has finished its task

  /// Runs the task on its own thread; on the caller's, if no thread can be started.
  void start(const std::function<void()>& act) {
    idle = false;
    try {
      worker = std::thread([this, act] {
        act();
        idle = true;
      });
    } catch (const std::system_error&) {
      act();
      idle = true;
    }
  }
  void wait() {
    if (worker.joinable()) worker.join();
  }
};

CheckpointSaver::CheckpointSaver(const std::string& folder, Communicator& world, int keep,
                                 SaveMode mode, Disk& disk)
    : folder_(folder), world_(world), keep_(keep), mode_(mode), disk_(disk) {
  together(world_, [&] {
    if (world_.rank() == 0) root_.emplace(CheckpointRoot::lock(folder_, disk_));
  });
}

CheckpointSaver::~CheckpointSaver() {
  if (pending_) pending_->wait();
  if (root_) root_->sweep();
}

/// Writes this rank's file: completely on the background thread, all but its end when training
/// waits.
void CheckpointSaver::write(Pending& pending) {
  RankReport& report = pending.report;
  report.catch_errors([&] {
    if (pending.pieces.empty()) return;
    const std::string file_name = rank_file_name(world_.rank());
    if (mode_ == SaveMode::asynchronous) {
      report.file = write_rank_file(disk_, pending.unfinished, file_name, image_);
    } else {
      const auto values = [&](const CheckpointPiece& piece, std::int64_t first,
                              std::int64_t count) {
        const auto index = static_cast<std::size_t>(&piece - pending.pieces.data());
        return pending.values[index].subspan(first, count);
      };
      pending.file = begin_rank_file(disk_, pending.unfinished, file_name, pending.manifest,
                                     pending.pieces, values, &write_buffer_);
      report.file = pending.file->end();
    }
    report.pieces = pending.pieces;
  });
}

void CheckpointSaver::save(DistributedOptimizer& optimizer, const OptimizerSetup& setup,
                           const FlatLayout& whole, const CheckpointContent& content) {
  finish();
  auto pending = std::make_unique<Pending>();
  CheckpointManifest& manifest = pending->manifest;
  manifest.contract = content.contract;
  manifest.run = content.run;
  manifest.step = content.step;
  manifest.about = content.about;

  std::string name(64, '\0');
  together(world_, [&] {
    if (world_.rank() != 0) return;
    pending->unfinished = root_->begin(content.step);
    pending->unfinished.name.copy(name.data(), name.size());
  });
  world_.broadcast(std::as_writable_bytes(Span<char>(name)), 0);
  name.resize(std::strlen(name.c_str()));
  together(world_, [&] {
    manifest.tensors = checkpoint_tensors(whole);
    if (world_.rank() != 0)
      pending->unfinished = CheckpointRoot(folder_, disk_).join(content.step, name);
    const std::vector<OwnPiece> own = own_pieces(setup, whole);
    const std::vector<OwnPiece> blocks =
        scales_of(own, whole, setup.tp == nullptr ? 1 : setup.tp->world_size());
    const std::vector<ExposedBuffer> storage = optimizer.storage();
    for (const ExposedBuffer& buffer : storage) {
      const bool of_blocks = is_state_scale(buffer.id);
      if (!is_state(buffer.id) && !of_blocks) continue;
      for (const OwnPiece& one : of_blocks ? blocks : own) {
        CheckpointPiece piece = one.piece;
        piece.state = zeroproof::name(buffer.id);
        pending->pieces.push_back(std::move(piece));
        if (buffer.view.dtype == DType::fp32) {
          pending->values.push_back(elements_of(one, buffer));
        } else {
          pending->values.push_back(pending->widened.emplace_back(widened(one, buffer)));
        }
      }
    }
    if (mode_ == SaveMode::asynchronous && !pending->pieces.empty())
      image_.make(manifest, pending->pieces, pending->values, setup.exec.num_threads);
    manifest.about["state"] = counters_json(optimizer, setup, storage);
  });
  pending_ = std::move(pending);
  if (mode_ == SaveMode::synchronous) {
    write(*pending_);
    begin_commit();
    return end_commit();
  }
  if (world_.world_size() > 1)
    return pending_->start([this, &pending = *pending_] { write(pending); });
  // No other rank reports.
  pending_->commits = true;
  pending_->start([this, &pending = *pending_] {
    write(pending);
    pending.commit = pending.report;
    if (!pending.commit.error.empty()) return;
    pending.commit.catch_errors([&] {
      describe(pending, {pending.report});
      commit(pending);
    });
  });
}

/// On rank 0: the manifest, from the reports of all ranks.
void CheckpointSaver::describe(Pending& pending, const std::vector<RankReport>& reports) const {
  CheckpointManifest& manifest = pending.manifest;
  for (const RankReport& report : reports) {
    if (report.pieces.empty()) continue;
    for (CheckpointPiece piece : report.pieces) {
      piece.file = static_cast<std::int64_t>(manifest.files.size());
      manifest.pieces.push_back(std::move(piece));
    }
    manifest.files.push_back(report.file);
  }
  pending.text = readable_manifest(pending.unfinished, manifest);
}

/// On rank 0, when all files are durable: commits.
void CheckpointSaver::commit(Pending& pending) const {
  commit_checkpoint(disk_, *root_, pending.unfinished, pending.text);
  if (keep_ > 0) prune_checkpoints(disk_, *root_, keep_);
}

bool CheckpointSaver::advance() {
  if (!pending_) return true;
  std::uint64_t waits = pending_->idle ? 0 : 1;
  world_.all_reduce({&waits, 1}, IntegerReduce::max);
  if (waits != 0) return false;
  if (!pending_->commits) {
    begin_commit();
    return false;
  }
  end_commit();
  return true;
}

void CheckpointSaver::finish() {
  if (pending_ && !pending_->commits) begin_commit();
  if (pending_) end_commit();
}

/// All ranks have written, or have failed to.
void CheckpointSaver::begin_commit() {
  pending_->wait();
  const std::vector<RankReport> reports = gather_reports(world_, pending_->report);
  try {
    throw_first_error(world_, reports);
    if (mode_ == SaveMode::synchronous) {
      together(world_, [&] {
        if (world_.rank() == 0) describe(*pending_, reports);  // meanwhile the files are completed
        if (pending_->file) pending_->file->finish();
        pending_->file.reset();
      });
      together(world_, [&] {
        if (world_.rank() == 0) commit(*pending_);
      });
    } else {
      together(world_, [&] {
        if (world_.rank() != 0) return;
        pending_->start([this, &pending = *pending_, reports] {
          pending.commit.catch_errors([&] {
            describe(pending, reports);
            commit(pending);
          });
        });
      });
    }
  } catch (...) {
    abandon();
    throw;
  }
  pending_->commits = true;
}

void CheckpointSaver::end_commit() {
  pending_->wait();
  try {
    together(world_, [&] {
      const RankReport& commit = pending_->commit;
      if (!commit.error.empty()) throw Error(commit.code, commit.error);
    });
  } catch (...) {
    abandon();
    throw;
  }
  pending_.reset();
}

void CheckpointSaver::abandon() noexcept {
  pending_->wait();
  pending_.reset();
  if (world_.rank() == 0 && root_) root_->sweep();
}

}  // namespace zeroproof
