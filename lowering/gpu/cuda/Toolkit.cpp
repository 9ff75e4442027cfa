#include "lowering/gpu/cuda/Toolkit.h"

#include "lowering/gpu/build/Chips.h"
#include "lowering/support/WriteFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include <cstdlib>

using namespace cria;
using llvm::SmallVector;
using llvm::StringRef;
using llvm::Twine;

static llvm::ErrorOr<std::string> find(StringRef name) {
  SmallVector<std::string> folders;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *home = std::getenv(variable))
      folders.push_back(std::string(home) + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  if (auto found = llvm::sys::findProgramByName(name))
    return found;
  SmallVector<StringRef> paths(folders.begin(), folders.end());
  return llvm::sys::findProgramByName(name, paths);
}

bool cria::hasTool(StringRef name) { return static_cast<bool>(find(name)); }

namespace {
/// A temporary file, removed at the end.
class Temporary {
public:
  static llvm::Expected<Temporary> create(StringRef suffix) {
    Temporary made;
    if (auto code =
            llvm::sys::fs::createTemporaryFile("cria", suffix, made.path))
      return llvm::createStringError(code, "temporary file: " + code.message());
    made.remover = std::make_unique<llvm::FileRemover>(Twine(made.path));
    return made;
  }

  llvm::Expected<std::string> text() const {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return llvm::createStringError(buffer.getError(),
                                     path + ": " + buffer.getError().message());
    return (*buffer)->getBuffer().str();
  }

  llvm::SmallString<128> path;

private:
  std::unique_ptr<llvm::FileRemover> remover;
};
} // namespace

/// The first line of a log that says what failed.
static StringRef complaint(StringRef log) {
  SmallVector<StringRef> lines;
  log.split(lines, '\n');
  for (StringRef line : lines)
    if (line.contains("error") || line.contains("fatal"))
      return line;
  return lines.front();
}

/// Runs a program of the toolkit for a chip. Returns the program's output.
static llvm::Expected<std::string> run(StringRef name, StringRef chip,
                                       llvm::ArrayRef<StringRef> arguments) {
  auto program = find(name);
  if (!program)
    return llvm::createStringError(
        "machine code for " + chip + " needs " + name +
        " of the CUDA toolkit, which is neither on PATH nor in CUDA_HOME");
  auto log = Temporary::create("log");
  if (!log)
    return log.takeError();
  SmallVector<StringRef> command = {*program};
  command.append(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), log->path.str(),
                                          log->path.str()};
  int status =
      llvm::sys::ExecuteAndWait(*program, command, std::nullopt, redirects);
  auto said = log->text();
  if (said && status != 0)
    return llvm::createStringError(name + " for " + chip +
                                   " fails: " + complaint(*said));
  return said;
}

/// Whether ptxas assembles PTX of the chip `ptx` for `chip`. PTX whose chip
/// ends in a letter is for that chip only.
static bool runsOn(StringRef ptx, StringRef chip) {
  return ptx == chip || (llvm::isDigit(ptx.back()) &&
                         simt::numberOf(ptx) <= simt::numberOf(chip));
}

/// The latest PTX that runs on `chip`. If none does, the oldest, and ptxas
/// reports the error.
static const CudaBinary &ptxFor(const CudaImage &image, StringRef chip) {
  const CudaBinary *best = &image.binaries.front();
  for (const CudaBinary &each : image.binaries)
    if (each.format == "ptx" && runsOn(each.chip, chip))
      best = &each;
  return *best;
}

llvm::Expected<CudaBinary> cria::assemble(const CudaImage &image,
                                          StringRef chip) {
  const CudaBinary &ptx = ptxFor(image, chip);
  auto input = Temporary::create("ptx"), output = Temporary::create("cubin");
  if (!input || !output)
    return llvm::joinErrors(input.takeError(), output.takeError());
  if (llvm::Error error = writeFile(input->path, ptx.bytes))
    return error;
  auto log =
      run("ptxas", chip,
          {"-v", ("-arch=" + chip).str(), input->path, "-o", output->path});
  if (!log)
    return log.takeError();
  auto bytes = output->text();
  if (!bytes)
    return bytes.takeError();
  return CudaBinary{"cubin",        chip.str(),    std::move(*bytes),
                    /*spans=*/{},   ptx.dependent, ptx.generation,
                    std::move(*log)};
}

llvm::Expected<std::string> cria::disassemble(const CudaBinary &cubin) {
  auto input = Temporary::create("cubin");
  if (!input)
    return input.takeError();
  if (llvm::Error error = writeFile(input->path, cubin.bytes))
    return error;
  return run("nvdisasm", cubin.chip, {"-c", input->path});
}
