/// The way of a program through its phases, for every target and CPU that its
/// artifact gets code for.
#pragma once

#include "lowering/Compilation.h"

#include <string>

namespace cria {

class Build {
public:
  struct Options {
    /// The folder of --dump-phases, which gets every phase: DIR/NN-name.ext. If
    /// each target has its own program, "cpu" or "cuda" follows DIR; if each
    /// CPU or chip has, its name follows: DIR/cpu/x86-64-v3/NN-name.ext. An
    /// object has the code for all of them. Empty: nothing is written.
    std::string folder;
    /// Whether import is written with locations.
    bool locations = true;
    /// Whether code for CPUs has the lines of linalg's text in `folder`.
    bool lines = false;
  };

  explicit Build(Options options) : options(std::move(options)) {}

  /// Takes a program to `last`. If `last` comes after the shared phases, also
  /// compiles the program for NVIDIA GPUs and other CPUs, if the artifact is to
  /// have code for them, and adds that code to it.
  llvm::Error run(Compilation &compilation, Phase last) const;

private:
  llvm::Error advance(Compilation &compilation, Phase last) const;
  llvm::Error dump(const Compilation &compilation) const;
  std::string folderOf(const Compilation &compilation, Phase phase) const;

  Options options;
};

} // namespace cria
