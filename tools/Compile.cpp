#include "tools/Compile.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/Environment.h"
#include "runtime/base/files/OutputFile.h"
#include "runtime/base/files/OwnFolder.h"
#include "runtime/gguf/Files.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cria {

namespace fs = std::filesystem;

/// The most bytes of a config.json, and of an artifact.
static constexpr uint64_t kMostConfig = 64u << 20, kMostArtifact = 1u << 30;

bool isModel(const std::string &path) {
  std::error_code ignored;
  return gguf::isGguf(path) || fs::is_directory(path, ignored);
}

static Result<std::string> cacheFolder() {
  std::string folder = environment("CRIA_CACHE");
  if (!folder.empty())
    return folder;
  if (folder = environment("XDG_CACHE_HOME"); !folder.empty())
    return folder + "/cria";
  if (folder = environment("HOME"); !folder.empty())
    return folder + "/.cache/cria";
  return Status(CRIA_NOT_FOUND, "no folder for compiled models: set CRIA_CACHE "
                                "or HOME");
}

/// The path of cria-compile.
static Result<std::string> findCompiler() {
  std::string given = environment("CRIA_COMPILE");
  if (!given.empty())
    return given;
  std::error_code ignored;
  std::string folders =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().string() + ":" +
      environment("PATH");
  for (size_t begin = 0; begin <= folders.size();) {
    size_t end = std::min(folders.find(':', begin), folders.size());
    std::string path = folders.substr(begin, end - begin) + "/cria-compile";
    if (end > begin && access(path.c_str(), X_OK) == 0)
      return path;
    begin = end + 1;
  }
  return Status(
      CRIA_NOT_FOUND,
      "cria-compile is neither beside this program nor on the PATH: set "
      "CRIA_COMPILE, or compile the model elsewhere");
}

/// What tells a file from other versions of it: path, size and time.
static Result<std::string> identityOf(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0)
    return errnoStatus(path, "cannot stat", errno);
  std::error_code ignored;
  return fs::canonical(path, ignored).string() + " " +
         std::to_string(info.st_size) + " " +
         std::to_string(info.st_mtim.tv_sec) + " " +
         std::to_string(info.st_mtim.tv_nsec) + "\n";
}

/// What this machine says of its CPU, so that machines which share a cache do
/// not share code: name and features, of the first core.
static std::string identityOfCpu() {
  std::ifstream info("/proc/cpuinfo");
  std::string identity;
  for (std::string line; std::getline(info, line) && !line.empty();)
    for (const char *key : {"model name", "flags", "CPU part", "Features"})
      if (line.rfind(key, 0) == 0)
        identity += line + "\n";
  return identity;
}

/// The name of the artifact in the cache: a checksum of all that it depends on.
/// Of a folder, that is the text of the config.
static Result<std::string> nameOf(const CompileRequest &request,
                                  const std::string &compiler) {
  Result<std::string> program = identityOf(compiler);
  if (!program.ok())
    return program;
  Result<std::string> config =
      gguf::isGguf(request.model)
          ? identityOf(request.model)
          : readFile(request.model + "/config.json", kMostConfig);
  if (!config.ok())
    return config;
  std::string key = *program + identityOfCpu();
  std::error_code ignored;
  for (const std::string &flag : request.flags) {
    key += flag + "\n";
    std::string file = flag.substr(flag.find('=') + 1); // as --machine has it
    if (fs::is_regular_file(file, ignored))
      if (Result<std::string> identity = identityOf(file); identity.ok())
        key += *identity;
  }
  key += *config;
  auto bytes = reinterpret_cast<const std::byte *>(key.data());
  char name[32];
  snprintf(name, sizeof(name), "%016" PRIx64 ".cria",
           checksum(bytes, key.size()));
  return std::string(name);
}

/// Reads all that comes from `fd`.
static Result<std::string> readAll(int fd, const std::string &from) {
  std::string all;
  for (;;) {
    char buffer[1 << 16];
    ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return errnoStatus(from, "cannot read", errno);
    if (got == 0)
      return all;
    all.append(buffer, static_cast<size_t>(got));
    if (all.size() > kMostArtifact)
      return Status(CRIA_INVALID_ARGUMENT, from + ": printed more than " +
                                               std::to_string(kMostArtifact) +
                                               " bytes");
  }
}

/// What `command` prints on standard output, if it ends with exit code 0.
static Result<std::string> outputOf(const std::vector<std::string> &command,
                                    void (*setChild)(pid_t child)) {
  const std::string &program = command[0];
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return errnoStatus(program, "cannot make a pipe", errno);
  std::vector<char *> argv;
  for (const std::string &argument : command)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  // Signals wait until their handler knows the child.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &before);
  pid_t child = 0;
  int error = posix_spawn(&child, program.c_str(), &actions, &attributes,
                          argv.data(), environ);
  setChild(error ? 0 : child);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Result<std::string> output = std::string();
  if (!error)
    output = readAll(ends[0], program);
  close(ends[0]);
  if (error)
    return errnoStatus(program, "cannot run", error);
  int result = 0;
  while (waitpid(child, &result, 0) < 0 && errno == EINTR)
    ;
  setChild(0);
  if (!WIFEXITED(result) || WEXITSTATUS(result) != 0)
    return Status(CRIA_INVALID_ARGUMENT, program + " failed");
  return output;
}

/// cpu or cuda, as cria-compile's --target says it.
static std::string targetOf(DeviceKind device) {
  if (device == DeviceKind::Auto) {
    int32_t gpus = 0;
    cria_device_count(CRIA_DEVICE_CUDA, &gpus, nullptr);
    return gpus > 0 ? "cuda" : "cpu";
  }
  return device == DeviceKind::Cpu ? "cpu" : "cuda";
}

/// Adds the defaults whose option is not among the flags.
static void complete(CompileRequest &request) {
  request.defaults.push_back("--target=" + targetOf(request.device));
  for (const std::string &option : request.defaults) {
    std::string name = option.substr(0, option.find('='));
    bool given = std::any_of(request.flags.begin(), request.flags.end(),
                             [&](const auto &flag) {
                               return flag.substr(0, flag.find('=')) == name;
                             });
    if (!given)
      request.flags.push_back(option);
  }
}

Result<std::string> compiled(const CompileRequest &asked,
                             void (*say)(const std::string &line)) {
  CompileRequest request = asked;
  complete(request);
  Result<std::string> folder = cacheFolder(), compiler = findCompiler();
  if (!folder.ok() || !compiler.ok())
    return folder.ok() ? compiler : folder;
  Result<std::string> name = nameOf(request, *compiler);
  if (!name.ok())
    return name;
  Result<OwnFolder> cache = OwnFolder::open(*folder, /*make=*/true);
  if (!cache.ok())
    return Status(cache.status().code(),
                  cache.status().message() +
                      ": CRIA_CACHE can name another folder");
  std::string path = cache->path(*name);
  Result<File> kept = cache->file(*name);
  if (kept.ok())
    return path;
  if (kept.status().code() != CRIA_NOT_FOUND)
    return kept.status();
  say("compiling " + request.model + " to " + path);
  auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> command = {*compiler, request.model, "-o", "-"};
  command.insert(command.end(), request.flags.begin(), request.flags.end());
  Result<std::string> artifact = outputOf(command, request.setChild);
  if (!artifact.ok())
    return Status(artifact.status().code(),
                  request.model + ": " + artifact.status().message());
  if (artifact->compare(0, 4, "\177ELF") != 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  "--compile: expected options with which cria-compile prints "
                  "an artifact");
  OutputFile file(path, OutputFile::Named::ByProgram);
  file.write(artifact->data(), artifact->size());
  file.commit();
  if (file.failed())
    return statusOf(file);
  char seconds[32];
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  snprintf(seconds, sizeof(seconds), "%.1f", took.count());
  say(std::string("compiled in ") + seconds + " s; it is kept for later runs");
  return path;
}

} // namespace cria
