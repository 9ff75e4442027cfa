#include "tools/emulator/translate/Program.h"

#include "tools/emulator/ptx/Link.h"
#include "tools/emulator/translate/Compile.h"
#include "tools/emulator/translate/Emitter.h"
#include "tools/emulator/translate/Products.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

namespace cria::emulator {

Kernel::Kernel() = default;
Kernel::Kernel(Kernel &&) noexcept = default;
Kernel &Kernel::operator=(Kernel &&) noexcept = default;
Kernel::~Kernel() = default;

Program::Program(const TranslateOptions &options, DeviceMemory &memory)
    : options(options), memory(memory) {}

Program::~Program() {
  for (auto *places : {&globals, &functions})
    for (auto &[name, address] : *places)
      memory.free(address, Allocation::Variable);
}

std::variant<std::unique_ptr<Program>, Error>
Program::load(llvm::StringRef text, const TranslateOptions &options,
              DeviceMemory &memory) {
  return link(text.str(), options, memory);
}

std::variant<std::unique_ptr<Program>, Error>
Program::link(llvm::ArrayRef<std::string> texts,
              const TranslateOptions &options, DeviceMemory &memory) {
  auto parsed = linkPtx(texts);
  if (auto *error = std::get_if<Error>(&parsed))
    return *error;
  std::unique_ptr<Program> program(new Program(options, memory));
  program->ptx = std::move(std::get<PtxModule>(parsed));
  if (auto error = program->checkTarget())
    return *error;
  if (auto error = program->placeVariables())
    return *error;
  if (auto error = program->placeFunctions())
    return *error;
  if (auto error = program->relocate())
    return *error;
  if (auto error = program->translateAll())
    return *error;
  return program;
}

std::optional<Error> Program::translateAll() {
  std::optional<Error> first;
  bool anyRuns = false;
  for (const Function &function : ptx.functions) {
    for (const Instruction &instruction : function.body)
      locations[instruction.line] = instruction.location;
    if (!function.isEntry || function.isDeclaration)
      continue;
    auto translated = translate(function);
    Kernel kernel;
    if (auto *error = std::get_if<Error>(&translated)) {
      kernel.function = &function;
      kernel.refusal = *error;
      first = first ? first : *error;
    } else {
      kernel = std::move(std::get<Kernel>(translated));
      anyRuns = true;
    }
    if (!kernels.emplace(function.name, std::move(kernel)).second)
      return Error{function.line,
                   "kernel '" + function.name + "' is defined twice"};
  }
  return anyRuns ? std::nullopt : first;
}

/// PTX for sm_80 runs on every later device; PTX for sm_90a only on sm_90.
std::optional<Error> Program::checkTarget() const {
  if (ptx.version > options.newestPtx)
    return Error{1,
                 "unsupported .version " + std::to_string(ptx.version / 10) +
                     "." + std::to_string(ptx.version % 10),
                 Error::Version};
  llvm::StringRef name = ptx.target;
  bool exact = name.consume_back("a");
  unsigned target;
  if (!name.consume_front("sm_") || name.getAsInteger(10, target))
    return Error{1, "unknown target '" + ptx.target + "'"};
  if (target > options.capability || (exact && target != options.capability))
    return Error{1,
                 "the target " + ptx.target + " does not run on sm_" +
                     std::to_string(options.capability),
                 Error::Target};
  return std::nullopt;
}

std::optional<Error> Program::placeVariables() {
  for (const Variable &variable : ptx.variables) {
    if (variable.space == "shared" || !variable.isKnown)
      continue;
    bool isExtern = variable.linkage == Linkage::Extern;
    if (isExtern || globals.count(variable.name))
      return Error{variable.line, "variable '" + variable.name +
                                      (isExtern ? "' is defined nowhere"
                                                : "' is defined twice")};
    uint64_t bytes = std::max<uint64_t>(variable.size, 1);
    uint64_t address =
        memory.allocate(bytes, Allocation::Variable, variable.name);
    if (!address)
      return Error{variable.line, "no memory for '" + variable.name + "'"};
    globals[variable.name] = address;
    auto *at = reinterpret_cast<char *>(address);
    std::memset(at, 0, bytes);
    if (!variable.initial.empty())
      std::memcpy(at, variable.initial.data(), variable.initial.size());
  }
  return std::nullopt;
}

std::optional<Error> Program::placeFunctions() {
  for (const Function &function : ptx.functions) {
    if (!function.hasAddress || functions.count(function.name))
      continue;
    uint64_t address = memory.allocate(8, Allocation::Variable, function.name);
    if (!address)
      return Error{function.line, "no memory for '" + function.name + "'"};
    functions[function.name] = address;
  }
  return std::nullopt;
}

/// Puts addresses into variables.
std::optional<Error> Program::relocate() {
  for (const Variable &variable : ptx.variables)
    for (const Variable::Relocation &relocation : variable.relocations) {
      auto to = globals.find(relocation.name);
      if (to == globals.end())
        to = functions.find(relocation.name);
      if (to == functions.end() || !globals.count(variable.name))
        return Error{variable.line, "unknown name '" + relocation.name + "'"};
      uint64_t address = to->second + uint64_t(relocation.addend);
      uint64_t room = variable.size - relocation.offset;
      std::memcpy(reinterpret_cast<char *>(globals[variable.name]) +
                      relocation.offset,
                  &address, std::min<uint64_t>(room, 8));
    }
  return std::nullopt;
}

namespace {

/// Declares the functions of a kernel: `k_name` for it, `f_name` for others.
std::vector<llvm::Function *> declareAll(const Layout &layout,
                                         llvm::Module &module) {
  auto &context = module.getContext();
  llvm::Type *pointer = llvm::PointerType::get(context, 0);
  std::vector<llvm::Function *> declared;
  for (const Function *function : layout.functions) {
    size_t count = function->isEntry ? 2
                                     : 1 + function->results.size() +
                                           function->parameters.size();
    std::vector<llvm::Type *> types(count, pointer);
    auto *made = llvm::Function::Create(
        llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false),
        function->isEntry ? llvm::Function::ExternalLinkage
                          : llvm::Function::InternalLinkage,
        (function->isEntry ? "k_" : "f_") + function->name, module);
    made->addFnAttr(llvm::Attribute::NoUnwind);
    if (layout.recurses) // an endless recursion must not become a loop
      made->addFnAttr("disable-tail-calls", "true");
    made->addParamAttr(0, llvm::Attribute::NoAlias);
    declared.push_back(made);
  }
  return declared;
}

} // namespace

std::variant<Kernel, Error> Program::translate(const Function &entry) {
  Layout layout = layoutOf(ptx, entry);
  for (const Function *function : layout.functions)
    if (function->refusal)
      return *function->refusal;
  for (const Function *function : layout.functions)
    if (options.checks)
      if (auto error = checkProducts(*function))
        return *error;
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>(entry.name, *context);
  prepareForHost(*module);
  KernelContext kernel{ptx, globals, functions, *module, layout};
  kernel.capability = options.capability;
  kernel.checks = options.checks;
  kernel.global = options.checks && options.global;
  kernel.lineDistance = memory.lineDistance();
  std::unique_ptr<CountPlan> countPlan;
  if (options.counting != Counting::Nothing)
    countPlan = std::make_unique<CountPlan>();
  kernel.countPlan = countPlan.get();
  kernel.requests = options.counting == Counting::Requests;
  std::vector<llvm::Function *> declared = declareAll(layout, *module);
  for (size_t i = 0; i < declared.size(); ++i)
    if (auto error =
            Emitter(kernel, *layout.functions[i], declared[i]).translate())
      return *error;
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*module, &stream))
    return Error{entry.line, "internal error: bad IR: " + problem};
  used.insert(kernel.used.begin(), kernel.used.end());
  Kernel made;
  made.function = &entry;
  made.sharedBytes = layout.sharedBytes;
  made.reservedBytes = layout.reserved ? kReservedShared : 0;
  made.localBytes = layout.localBytes;
  made.blocks = kernel.blocks;
  made.recurses = layout.recurses;
  made.countPlan = std::move(countPlan);
  made.pending = std::make_unique<llvm::orc::ThreadSafeModule>(
      std::move(module), std::move(context));
  return made;
}

Kernel *Program::find(const std::string &name) {
  auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : &found->second;
}

std::optional<Error> Program::compile(Kernel &kernel) {
  if (kernel.code || kernel.refusal)
    return kernel.refusal;
  auto pending = std::move(kernel.pending);
  auto compiled =
      compileKernel(jit, std::move(*pending), "k_" + kernel.function->name,
                    options.optimization, options.cache);
  if (auto *message = std::get_if<std::string>(&compiled))
    return kernel.refusal = Error{kernel.function->line, *message};
  kernel.code = reinterpret_cast<KernelCode>(std::get<uint64_t>(compiled));
  return std::nullopt;
}

const Allocation *Program::variable(const std::string &name) const {
  auto found = globals.find(name);
  return found == globals.end() ? nullptr : memory.find(found->second, 1);
}

std::string Program::sourceOf(int line) const {
  auto found = locations.find(line);
  if (found == locations.end() || found->second.file == 0)
    return "";
  auto place = [&](int file, int number) {
    auto name = ptx.files.find(file);
    llvm::StringRef path = "?";
    if (name != ptx.files.end())
      path = name->second;
    return (path.rsplit('/').second.empty() ? path : path.rsplit('/').second)
               .str() +
           ":" + std::to_string(number);
  };
  const Location &at = found->second;
  std::string text = " (" + place(at.file, at.line);
  if (at.inlinedFile)
    text += " inlined at " + place(at.inlinedFile, at.inlinedLine);
  return text + ")";
}

} // namespace cria::emulator
