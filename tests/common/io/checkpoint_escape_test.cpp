// Nothing outside of a folder of checkpoints is read or written, for any content of the folder.

#include <doctest.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "tests/common/io/small_checkpoint.hpp"
#include "tests/fuzz/checkpoint_check.hpp"
#include "tests/support/temporary_folder.hpp"

namespace checkpoint_escape_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace fs = std::filesystem;

namespace {

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}
void put(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// A folder of checkpoints, and beside it another one with its own complete checkpoint: a reader
/// that follows a path there would find valid bytes.
struct Place {
  Place()
      : folder(TemporaryFolder::in_memory()),
        run(folder.file("run")),
        outside(folder.file("outside")) {
    save_small(system_disk(), run.string(), 10, 2);
    fs::copy(run, outside, fs::copy_options::recursive);
    put(outside / "secret", "secret");
    before = everything();
  }
  fs::path step() const { return run / checkpoint_name(10); }
  fs::path first() const { return step() / rank_file_name(0); }
  fs::path manifest() const { return step() / manifest_name; }
  fs::path outside_step() const { return outside / checkpoint_name(10); }

  std::map<std::string, std::string> everything() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(outside))
      all[entry.path().string()] = entry.is_regular_file() ? content(entry.path()) : "a folder";
    return all;
  }
  /// Renames one of the files in the manifest; the original name is missing.
  void name_file(const std::string& quoted) const {
    std::string text = content(manifest());
    text = text.substr(text.find("\"manifest\":") + 11);
    text.resize(text.size() - 2);
    const std::string old = "\"name\":\"" + rank_file_name(0) + "\"";
    text.replace(text.find(old), old.size(), "\"name\":" + quoted);
    put(manifest(), with_hash(text));
    fs::remove(first());
  }

  TemporaryFolder folder;
  fs::path run, outside;
  std::map<std::string, std::string> before;
};

struct Escape {
  const char* name;
  std::function<void(const Place&)> prepare;
};

std::vector<Escape> names() {
  std::vector<Escape> all;
  const auto add = [&](const char* what, std::string quoted) {
    all.push_back({what, [quoted](const Place& place) { place.name_file('"' + quoted + '"'); }});
  };
  add("a name above", "../../outside/step-00000010/rank-00000.safetensors");
  all.push_back({"an absolute name", [](const Place& place) {
                   place.name_file('"' + (place.outside_step() / rank_file_name(0)).string() + '"');
                 }});
  add("a name below", "sub/rank-00000.safetensors");
  add("the folder", ".");
  add("the folder above", "..");
  add("no name", "");
  add("a hidden name", ".rank-00000.safetensors");
  add("a NUL in the middle", "rank-00000.safetensors\\u0000/../x");
  add("129 characters", std::string(129, 'r'));
  add("5,000 characters", std::string(5000, 'r'));
  add("a line break", "rank\\n-00000");
  add("a backslash", "..\\\\rank-00000.safetensors");
  add("another alphabet", "r\xC3\xA4nk");
  add("a home", "~/rank-00000.safetensors");
  add("a slash written out", "..\\u002frank-00000.safetensors");
  add("the manifest itself", "manifest.json");
  add("another case", "RANK-00000.safetensors");
  return all;
}

std::vector<Escape> things() {
  const auto link_first = [](const fs::path& to) {
    return [to](const Place& place) {
      fs::remove(place.first());
      fs::create_symlink(to, place.first());
    };
  };
  return {
      {"a link to the right bytes outside",
       [](const Place& place) {
         fs::remove(place.first());
         fs::create_symlink(place.outside_step() / rank_file_name(0), place.first());
       }},
      {"a link to the right bytes inside",
       [](const Place& place) {
         fs::rename(place.first(), place.run / "moved");
         fs::create_symlink("../moved", place.first());
       }},
      {"a link to nothing", link_first("nothing")},
      {"a link to itself", link_first(rank_file_name(0))},
      {"a link to a device", link_first("/dev/zero")},
      {"a link to a process", link_first("/proc/self/mem")},
      {"a folder",
       [](const Place& place) {
         fs::remove(place.first());
         fs::create_directory(place.first());
       }},
      {"a pipe",
       [](const Place& place) {
         fs::remove(place.first());
         REQUIRE(::mkfifo(place.first().c_str(), 0600) == 0);
       }},
      {"a socket",
       [](const Place& place) {
         fs::remove(place.first());
         const int handle = ::socket(AF_UNIX, SOCK_STREAM, 0);
         sockaddr_un name{};
         name.sun_family = AF_UNIX;
         const fs::path back = fs::current_path();
         fs::current_path(place.step());
         std::strcpy(name.sun_path, rank_file_name(0).c_str());
         const int bound = ::bind(handle, reinterpret_cast<const sockaddr*>(&name), sizeof name);
         fs::current_path(back);
         ::close(handle);
         REQUIRE(bound == 0);
       }},
      {"a manifest that is a link",
       [](const Place& place) {
         fs::remove(place.manifest());
         fs::create_symlink(place.outside_step() / manifest_name, place.manifest());
       }},
      {"a manifest that is a pipe",
       [](const Place& place) {
         fs::remove(place.manifest());
         REQUIRE(::mkfifo(place.manifest().c_str(), 0600) == 0);
       }},
      {"a manifest that is a folder",
       [](const Place& place) {
         fs::remove(place.manifest());
         fs::create_directory(place.manifest());
       }},
      {"a checkpoint that is a link",
       [](const Place& place) {
         fs::remove_all(place.step());
         fs::create_directory_symlink(place.outside_step(), place.step());
       }},
      {"a checkpoint that is a file",
       [](const Place& place) {
         fs::remove_all(place.step());
         put(place.step(), "x");
       }},
      {"a longer file",
       [](const Place& place) { put(place.first(), content(place.first()) + "secret"); }},
      {"a file too many",
       [](const Place& place) {
         fs::create_symlink(place.outside / "secret", place.step() / "x");
       }},
  };
}

ErrorCode code_of_reading(const std::string& path) {
  try {
    CheckpointReader(CheckpointRoot(path), 10).verify();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

}  // namespace

TEST_CASE("checkpoint: names and files that lead outside are rejected, and not followed") {
  int cases = 0;
  for (const auto& all : {names(), things()}) {
    for (const Escape& escape : all) {
      const Place place;
      escape.prepare(place);
      CAPTURE(escape.name);
      const std::string problem = small_problem(place.run.string(), 10);
      CAPTURE(problem);
      CHECK(problem.find(" (") != std::string::npos);
      CHECK(code_of_reading(place.run.string()) == ErrorCode::damaged);
      CHECK(place.everything() == place.before);
      // The next save changes nothing outside either, even if it removes everything in the folder.
      try {
        save_small(system_disk(), place.run.string(), 10, 1);
        save_small(system_disk(), place.run.string(), 20, 1, 1);
      } catch (const Error&) {
        CHECK(place.everything() == place.before);  // an error is fine if nothing changed outside
      }
      CHECK(place.everything() == place.before);
      ++cases;
    }
  }
  std::printf("ways to lead elsewhere: %d\n", cases);
  CHECK(cases >= 25);
}

TEST_CASE("checkpoint: a save follows no prepared links") {
  const std::vector<Escape> traps = {
      {"LATEST is a link",
       [](const Place& place) {
         fs::remove(place.run / latest_name);
         fs::create_symlink(place.outside / "secret", place.run / latest_name);
       }},
      {"an unfinished checkpoint is a link",
       [](const Place& place) {
         fs::create_directory_symlink(place.outside_step(),
                                      place.run / unfinished_name(10, "0123456789abcdef"));
       }},
      {"an unfinished checkpoint has links",
       [](const Place& place) {
         const fs::path unfinished = place.run / unfinished_name(10, "0123456789abcdef");
         fs::create_directory(unfinished);
         fs::create_symlink(place.outside / "secret", unfinished / manifest_name);
         fs::create_directory_symlink(place.outside_step(), unfinished / "folder");
       }},
      {"an unfinished LATEST is a link",
       [](const Place& place) {
         fs::create_symlink(place.outside / "secret", place.run / ".LATEST.tmp-0123456789abcdef");
       }},
      {"a checkpoint of the step is a link",
       [](const Place& place) {
         fs::create_directory_symlink(place.outside_step(), place.run / checkpoint_name(11));
       }},
      {"the next checkpoint is a file",
       [](const Place& place) { put(place.run / checkpoint_name(11), "x"); }},
      {"the lock is a link",
       [](const Place& place) {
         fs::remove(place.run / lock_name);
         fs::create_symlink(place.outside / "secret", place.run / lock_name);
       }},
      {"the lock is a pipe",
       [](const Place& place) {
         fs::remove(place.run / lock_name);
         REQUIRE(::mkfifo((place.run / lock_name).c_str(), 0600) == 0);
       }},
  };
  for (const Escape& trap : traps) {
    const Place place;
    trap.prepare(place);
    CAPTURE(trap.name);
    try {
      save_small(system_disk(), place.run.string(), 11, 2, 1);
      CHECK(small_problem(place.run.string(), 11) == "");
    } catch (const Error& error) {
      const std::string problem = error.what();
      CAPTURE(problem);
      CHECK(problem.find(" (") != std::string::npos);
      CHECK(small_problem(place.run.string(), 10) == "");  // the existing checkpoint is complete
    }
    CHECK(place.everything() == place.before);
  }
}

}  // namespace checkpoint_escape_test
