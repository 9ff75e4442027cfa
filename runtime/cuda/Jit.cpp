#include "runtime/cuda/Jit.h"

#include <algorithm>
#include <chrono>
#include <memory>

namespace cria::cuda {

namespace {

/// Options that ask for the logs of the driver's compiler, and the logs.
class Log {
public:
  unsigned count() const { return 4; }
  CUjit_option *options() { return names; }
  void **values() { return pointers; }
  /// The error, on one line, ": " before it.
  std::string error() const;
  std::string info() const { return infos.get(); }

private:
  static constexpr size_t capacity = 1 << 16;
  /// Zeros; the last one is never written.
  static std::unique_ptr<char[]> buffer() {
    return std::make_unique<char[]>(capacity);
  }

  std::unique_ptr<char[]> errors = buffer(), infos = buffer();
  CUjit_option names[4] = {
      CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
      CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void *pointers[4] = {errors.get(), reinterpret_cast<void *>(capacity - 1),
                       infos.get(), reinterpret_cast<void *>(capacity - 1)};
};

} // namespace

std::string Log::error() const {
  std::string lines = errors.get();
  lines.erase(lines.find_last_not_of(" \n\r\t") + 1);
  for (char &character : lines)
    if (static_cast<unsigned char>(character) < ' ')
      character = ' ';
  return lines.empty() ? "" : ": " + lines;
}

Result<Loaded> loadModule(const std::shared_ptr<Context> &context,
                          const std::string &code, const std::string &name) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  Log log;
  CUmodule module = nullptr;
  CUresult result = (*context)->cuModuleLoadDataEx(
      &module, code.c_str(), log.count(), log.options(), log.values());
  Status status =
      context->check(result, "cuModuleLoadDataEx",
                     concat({"loading ", name, " on sm_", context->chip()}));
  if (!status.ok())
    return Status(status.code(), status.message() + log.error());
  std::chrono::duration<double> taken = Clock::now() - begin;
  return Loaded{Module(context, module), taken.count(), log.info()};
}

std::vector<std::string> slowdownsOf(const std::string &log) {
  static constexpr std::string_view key = "(C75";
  static constexpr size_t codeLength = 7; // of "(C7504)"
  std::vector<std::pair<std::string, int>> found;
  for (size_t at = 0; (at = log.find(key, at)) != std::string::npos;) {
    std::string line = log.substr(at, log.find('\n', at) - at);
    at += key.size();
    std::string code = line.substr(0, codeLength);
    auto known =
        std::find_if(found.begin(), found.end(), [&](const auto &other) {
          return !other.first.compare(0, codeLength, code);
        });
    if (known == found.end())
      found.emplace_back(line, 1);
    else
      ++known->second;
  }
  std::vector<std::string> lines;
  for (const auto &[line, times] : found)
    lines.push_back(concat(
        {line, times > 1 ? concat({" (", times, " times)"}) : std::string()}));
  return lines;
}

} // namespace cria::cuda
