#pragma once
// A disk that records its calls, and can compute the content after a loss of power: every call
// without a later sync of its file or folder may be lost, independently, and a write in any of its
// blocks of 512 bytes.

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/io/files/disk.hpp"

namespace zeroproof::tests {

class RecordingDisk : public Disk {
 public:
  struct Call {
    enum Kind { make_folder, create, write, rename, exchange, remove, sync } kind;
    int node;           ///< the file or folder; for names, their folder
    std::string name;   ///< or the bytes
    std::string other;  ///< the other name
    int made = -1;      ///< the created node
  };

  const std::vector<Call>& calls() const { return calls_; }

  int open_root(const char* path) override { return opened(Disk::open_root(path)); }
  int open_folder(int folder, const char* name) override {
    return opened(Disk::open_folder(folder, name));
  }
  int make_folder(int folder, const char* name) override {
    const int result = Disk::make_folder(folder, name);
    if (result == 0) {
      const int handle = Disk::open_folder(folder, name);
      calls_.push_back({Call::make_folder, node_of(folder), name, "", node_of(handle)});
      Disk::close(handle);
    }
    return result;
  }
  int create(int folder, const char* name) override {
    const int handle = Disk::create(folder, name);
    if (handle >= 0) {
      kept_.push_back(
          ::fcntl(handle, F_DUPFD_CLOEXEC, 0));  // so that no other file gets its number
      calls_.push_back({Call::create, node_of(folder), name, "", node_of(handle)});
    }
    return handle;
  }
  ssize_t write(int file, const void* bytes, std::size_t num_bytes) override {
    const ssize_t count = Disk::write(file, bytes, num_bytes);
    if (count > 0)
      calls_.push_back(
          {Call::write, node_of(file),
           std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count)), ""});
    return count;
  }
  int sync(int file) override {
    calls_.push_back({Call::sync, node_of(file), "", ""});
    return 0;  // no call is lost here
  }
  int rename(int folder, const char* from, const char* to) override {
    const int result = Disk::rename(folder, from, to);
    if (result == 0) calls_.push_back({Call::rename, node_of(folder), from, to});
    return result;
  }
  int exchange(int folder, const char* one, const char* other) override {
    const int result = Disk::exchange(folder, one, other);
    if (result == 0) calls_.push_back({Call::exchange, node_of(folder), one, other});
    return result;
  }
  int remove(int folder, const char* name) override {
    const int result = Disk::remove(folder, name);
    if (result == 0) calls_.push_back({Call::remove, node_of(folder), name, ""});
    return result;
  }
  int remove_folder(int folder, const char* name) override {
    const int result = Disk::remove_folder(folder, name);
    if (result == 0) calls_.push_back({Call::remove, node_of(folder), name, ""});
    return result;
  }

  ~RecordingDisk() override {
    for (const int handle : kept_) Disk::close(handle);
  }

  /// The content after the first `num_calls`: `lost` returns for each unsynced call, and for each
  /// block of 512 bytes of such a write, whether it is lost. Written into an existing empty folder.
  void replay(std::size_t num_calls, const std::string& path,
              const std::function<bool()>& lost) const {
    std::map<int, std::string> bytes;
    std::map<int, std::map<std::string, int>> folders;
    std::set<int> is_folder{root_};
    for (std::size_t i = 0; i < num_calls; ++i) {
      const Call& call = calls_[i];
      const bool durable = synced(i, num_calls);
      if (call.kind == Call::sync) continue;
      if (call.made >= 0 && call.kind == Call::make_folder) is_folder.insert(call.made);
      if (call.kind == Call::write) {
        std::string content = call.name;
        for (std::size_t begin = 0; !durable && begin < content.size(); begin += 512) {
          if (lost())
            std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(begin),
                        std::min<std::size_t>(512, content.size() - begin), '\0');
        }
        if (!durable && lost()) content.resize(content.size() / 512 / 2 * 512);
        bytes[call.node] += content;
        continue;
      }
      if (!durable && lost()) continue;
      auto& names = folders[call.node];
      switch (call.kind) {
        case Call::make_folder:
        case Call::create:
          names[call.name] = call.made;
          break;
        case Call::remove:
          names.erase(call.name);
          break;
        case Call::rename:
          if (const auto from = names.find(call.name); from != names.end()) {
            const int node = from->second;
            names.erase(from);
            names[call.other] = node;
          }
          break;
        case Call::exchange:
          if (names.count(call.name) != 0 && names.count(call.other) != 0)
            std::swap(names[call.name], names[call.other]);
          break;
        default:
          break;
      }
    }
    write_folder(root_, path, bytes, folders, is_folder);
  }

 private:
  /// A number for the file of a descriptor: the inode, which is unique while the file is open.
  int node_of(int handle) {
    struct stat status {};
    ::fstat(handle, &status);
    return nodes_.try_emplace(status.st_ino, static_cast<int>(nodes_.size())).first->second;
  }
  int opened(int handle) {
    if (handle >= 0) {
      const int node = node_of(handle);
      if (root_ < 0) root_ = node;
      kept_.push_back(::fcntl(handle, F_DUPFD_CLOEXEC, 0));
    }
    return handle;
  }

  bool synced(std::size_t call, std::size_t num_calls) const {
    for (std::size_t i = call + 1; i < num_calls; ++i) {
      if (calls_[i].kind == Call::sync && calls_[i].node == calls_[call].node) return true;
    }
    return false;
  }

  static void write_folder(int folder, const std::string& path,
                           const std::map<int, std::string>& bytes,
                           const std::map<int, std::map<std::string, int>>& folders,
                           const std::set<int>& is_folder) {
    const auto found = folders.find(folder);
    if (found == folders.end()) return;
    for (const auto& [name, node] : found->second) {
      const std::string inside = path + "/" + name;
      if (is_folder.count(node) != 0) {
        std::filesystem::create_directory(inside);
        write_folder(node, inside, bytes, folders, is_folder);
      } else {
        const auto content = bytes.find(node);
        std::ofstream(inside, std::ios::binary)
            << (content == bytes.end() ? std::string() : content->second);
      }
    }
  }

  std::vector<Call> calls_;
  std::map<ino_t, int> nodes_;
  std::vector<int> kept_;
  int root_ = -1;
};

}  // namespace zeroproof::tests
