#include "tools/compile/Build.h"

#include "lowering/support/WriteFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace cria;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// Writes a file into a folder, which is created.
static llvm::Error writeInto(llvm::StringRef folder, llvm::StringRef name,
                             llvm::StringRef text) {
  if (std::error_code code = fs::create_directories(folder))
    return llvm::createStringError(code, folder + ": " + code.message());
  llvm::SmallString<128> file(folder);
  path::append(file, name);
  return writeFile(file, text, OutputFile::Named::ByProgram);
}

std::string Build::folderOf(const Compilation &compilation, Phase phase) const {
  llvm::SmallString<128> folder(options.folder);
  bool isCpu = compilation.device() == Device::Cpu;
  if (compilation.isAlsoForGpus() && !isShared(phase))
    path::append(folder, isCpu ? "cpu" : "cuda");
  if (isCpu && !compilation.otherCpus().empty() && !isShared(phase) &&
      phase != Phase::Obj)
    path::append(folder, compilation.cpu().name);
  return folder.str().str();
}

/// Writes the phase that the program has reached.
llvm::Error Build::dump(const Compilation &compilation) const {
  Phase phase = compilation.phase();
  std::string folder = folderOf(compilation, phase);
  std::string name = dumpName(compilation.device(), phase);
  if (compilation.chips().size() > 1 && phase == Phase::Ptx) {
    for (const CudaBinary &binary : compilation.cudaImage().binaries)
      if (binary.format == "ptx")
        if (llvm::Error error =
                writeInto(folder + "/" + binary.chip, name, binary.bytes))
          return error;
    return llvm::Error::success();
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (llvm::Error error = compilation.print(stream, options.locations))
    return error;
  return writeInto(folder, name, text);
}

/// Takes one target's or CPU's program to `last`.
llvm::Error Build::advance(Compilation &compilation, Phase last) const {
  if (options.folder.empty())
    return compilation.advance(last);
  for (Phase next : phasesOf(compilation.device())) {
    if (next <= compilation.phase() || next > last)
      continue;
    if (next == Phase::Linalg && options.lines &&
        compilation.device() == Device::Cpu) {
      llvm::SmallString<128> file(folderOf(compilation, next));
      path::append(file, dumpName(Device::Cpu, next));
      (void)fs::make_absolute(file);
      compilation.countLinesIn(file.str().str());
    }
    if (llvm::Error error = compilation.advance(next))
      return error;
    if (llvm::Error error = dump(compilation))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Build::run(Compilation &compilation, Phase last) const {
  if (!options.folder.empty())
    if (llvm::Error error = dump(compilation))
      return error;
  if (llvm::Error error = advance(compilation, std::min(last, Phase::Fuse)))
    return error;
  if (isShared(last))
    return llvm::Error::success();
  if (compilation.isAlsoForGpus()) {
    Compilation cuda = compilation.fork(Device::Cuda);
    if (llvm::Error error = advance(cuda, Phase::Ptx))
      return error;
    compilation.embed(cuda.cudaImage());
  }
  if (compilation.device() == Device::Cpu)
    for (const CpuTarget &other : compilation.otherCpus()) {
      Compilation version = compilation.fork(other);
      Phase before = options.folder.empty() ? Phase::LlvmIr : Phase::Asm;
      if (llvm::Error error = advance(version, before))
        return error;
      compilation.embed(std::move(version));
    }
  return advance(compilation, last);
}
