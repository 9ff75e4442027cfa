/// A PTX text that can be run.
#pragma once

#include "tools/emulator/run/Counts.h"
#include "tools/emulator/run/DeviceMemory.h"
#include "tools/emulator/translate/Layout.h"

#include "llvm/ADT/ArrayRef.h"

#include <functional>
#include <memory>
#include <optional>
#include <set>

namespace llvm::orc {
class LLJIT;
class ThreadSafeModule;
} // namespace llvm::orc

namespace cria::emulator {

struct Form;
struct Thread;

/// How to translate.
struct TranslateOptions {
  unsigned capability = 80; ///< of the device: 80 for 8.0
  bool checks = false;      ///< check each access to memory
  bool global = false;      ///< look for races in global memory, too
  Counting counting = Counting::Nothing;
  unsigned optimization = 1; ///< LLVM's level, 0 to 2
  std::string cache;         ///< folder of machine code; empty: none
  unsigned newestPtx = 99;   ///< version that is read, 99 for 9.9
};

/// The code of a kernel: one thread of it, given its parameters.
using KernelCode = void (*)(Thread *thread, const char *parameters);

/// A kernel.
struct Kernel {
  const Function *function = nullptr;
  uint64_t sharedBytes = 0;   ///< static
  uint64_t reservedBytes = 0; ///< of them, for system software, at the start
  uint64_t localBytes = 0;
  bool blocks = false;   ///< threads wait for each other
  bool recurses = false; ///< it needs large stacks
  KernelCode code = nullptr;
  std::unique_ptr<CountPlan> countPlan; ///< null: nothing is counted
  std::unique_ptr<llvm::orc::ThreadSafeModule> pending; ///< not yet compiled
  std::optional<Error> refusal; ///< why it cannot be run

  Kernel();
  Kernel(Kernel &&) noexcept;
  Kernel &operator=(Kernel &&) noexcept;
  ~Kernel();
};

/// A module on the device. Loading translates all of it. A kernel is compiled
/// when it is first requested. A kernel that cannot be translated is refused
/// when it is requested; the others still work.
class Program {
public:
  /// Loads `text`; its variables are placed in `memory`, which must outlive the
  /// program. An error if the text is wrong, or if none of its kernels can be
  /// run.
  static std::variant<std::unique_ptr<Program>, Error>
  load(llvm::StringRef text, const TranslateOptions &options,
       DeviceMemory &memory);
  /// The same for several texts, which are linked.
  static std::variant<std::unique_ptr<Program>, Error>
  link(llvm::ArrayRef<std::string> texts, const TranslateOptions &options,
       DeviceMemory &memory);
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// The kernel called `name`, not compiled; null if there is none.
  Kernel *find(const std::string &name);
  /// Compiles `kernel` if it is not compiled yet. None, or why it cannot be
  /// run.
  std::optional<Error> compile(Kernel &kernel);
  const Allocation *variable(const std::string &name) const;
  /// ` (file:line)` of a PTX line, if the PTX gives it, else "".
  std::string sourceOf(int line) const;
  /// The rows of the table that the text used.
  const std::set<const Form *> &usedForms() const { return used; }
  const std::map<std::string, Kernel> &allKernels() const { return kernels; }

private:
  Program(const TranslateOptions &options, DeviceMemory &memory);
  std::optional<Error> checkTarget() const;
  std::optional<Error> placeVariables();
  std::optional<Error> placeFunctions();
  std::optional<Error> relocate();
  std::optional<Error> translateAll();
  std::variant<Kernel, Error> translate(const Function &entry);

  TranslateOptions options;
  DeviceMemory &memory;
  PtxModule ptx;
  std::map<std::string, Kernel> kernels;
  std::map<std::string, uint64_t> globals;
  /// Functions whose address is used. There are bytes at an address, so that no
  /// variable is there, but no code.
  std::map<std::string, uint64_t> functions;
  std::map<int, Location> locations; ///< by PTX line
  std::set<const Form *> used;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace cria::emulator
