#include "cuda/comm/nccl_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "common/base/error.hpp"
#include "cuda/comm/nccl_functions.hpp"

namespace zeroproof::cuda {

namespace {

constexpr const char* library_name = "libnccl.so.2";
constexpr const char* remedy =
    "install NCCL 2, name its library in ZP_NCCL_LIBRARY, or use another transport";

struct Version {
  int major = 0, minor = 0, patch = 0;
  std::string text() const {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  }
};

/// Until 2.8, the middle part of a version has one digit.
Version version_of(int code) {
  const int major = code < 10000 ? code / 1000 : code / 10000;
  const int rest = code - major * (code < 10000 ? 1000 : 10000);
  return {major, rest / 100, rest % 100};
}

/// The folders of python3's packages, one per line. An isolated python ignores the current folder.
std::vector<std::string> python_folders() {
  constexpr const char* ask =
      "command -v python3 >/dev/null && python3 -I -c '"
      "import sysconfig; p = sysconfig.get_paths(); print(p[\"purelib\"]); print(p[\"platlib\"])"
      "' 2>/dev/null </dev/null";
  std::FILE* const answer = ::popen(ask, "r");  // NOLINT(cert-env33-c): the text is a constant
  if (answer == nullptr) return {};
  std::string text;
  char part[256];
  while (text.size() < 8192 && std::fgets(part, sizeof(part), answer) != nullptr) text += part;
  ::pclose(answer);
  std::vector<std::string> folders;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string folder = text.substr(begin, end - begin);
    if (!folder.empty() && (folders.empty() || folders.back() != folder)) folders.push_back(folder);
  }
  return folders;
}

std::vector<std::string> toolkit_files() {
  std::vector<std::string> files;
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* folder = std::getenv(variable); folder != nullptr && *folder != 0)
      folders.emplace_back(folder);
  }
  folders.emplace_back("/usr/local/cuda");
  for (const std::string& folder : folders) {
    for (const char* part : {"/lib64/", "/lib/"}) files.push_back(folder + part + library_name);
  }
  return files;
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& path)
    : path_(path), functions_(std::make_unique<NcclFunctions>()) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    fail(ErrorCode::unavailable, "NCCL could not be loaded from " + path,
         "the dynamic linker says: " + std::string(why == nullptr ? "nothing" : why), remedy);
  }
  take_functions(library);
  check_version();
}

NcclLibrary::~NcclLibrary() = default;

void NcclLibrary::take_functions(void* library) {
  std::string lacking;
  const auto take = [&](auto& function, const char* name) {
    void* const address = ::dlsym(library, name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    return address;
  };
#define ZP_NCCL_TAKE(name)                      \
  if (take(functions_->name, #name) == nullptr) \
    lacking += (lacking.empty() ? "" : ", ") + std::string(#name);
  ZP_NCCL_NEEDED(ZP_NCCL_TAKE)
#undef ZP_NCCL_TAKE
#define ZP_NCCL_TAKE(name) \
  if (take(functions_->name, #name) == nullptr) missing_.emplace_back(#name);
  ZP_NCCL_OPTIONAL(ZP_NCCL_TAKE)
#undef ZP_NCCL_TAKE
  Dl_info info{};
  if (functions_->ncclGetVersion != nullptr &&
      ::dladdr(reinterpret_cast<void*>(functions_->ncclGetVersion), &info) != 0 &&
      info.dli_fname != nullptr)
    path_ = info.dli_fname;
  ZP_CHECK(lacking.empty(), ErrorCode::unavailable, path_ + " lacks " + lacking,
           "it is not NCCL, or older than 2.14", remedy);
}

void NcclLibrary::check_version() {
  int code = 0;
  const ncclResult_t result = functions_->ncclGetVersion(&code);
  const Version version = version_of(code);
  ZP_CHECK(result == ncclSuccess && version.major == NCCL_MAJOR, ErrorCode::unavailable,
           path_ + " is NCCL " + version.text(),
           "this program was built for NCCL " + std::to_string(NCCL_MAJOR) +
               ", and another major version may have other function arguments",
           remedy);
  version_ = version.text();
}

std::unique_ptr<NcclLibrary> find_nccl() {
  if (const char* named = std::getenv("ZP_NCCL_LIBRARY"); named != nullptr && *named != 0)
    return std::make_unique<NcclLibrary>(named);
  std::optional<Error> error;  // of the last existing file
  const auto load = [&](const std::string& path) -> std::unique_ptr<NcclLibrary> {
    if (error && ::access(path.c_str(), R_OK) != 0) return nullptr;
    try {
      return std::make_unique<NcclLibrary>(path);
    } catch (const Error& why) {
      error = why;
      return nullptr;
    }
  };
  if (auto library = load(library_name)) return library;
  for (const std::string& path : toolkit_files()) {
    if (auto library = load(path)) return library;
  }
  for (const std::string& folder : python_folders()) {
    if (auto library = load(folder + "/nvidia/nccl/lib/" + library_name)) return library;
  }
  throw Error(*error);
}

const NcclLibrary& shared_nccl() {
  struct Outcome {
    std::unique_ptr<NcclLibrary> library;
    std::optional<Error> error;
  };
  static const Outcome outcome = [] {
    Outcome found;
    try {
      found.library = find_nccl();
    } catch (const Error& error) {
      found.error = error;
    }
    return found;
  }();
  if (outcome.error) throw Error(*outcome.error);
  return *outcome.library;
}

std::string describe_nccl() {
  try {
    const NcclLibrary& library = shared_nccl();
    std::string text = "NCCL " + library.version() + ", " + library.path();
    for (const std::string& name : library.missing()) text += ", without " + name;
    return text;
  } catch (const std::exception& error) {
    return std::string("no NCCL: ") + error.what();
  }
}

}  // namespace zeroproof::cuda
