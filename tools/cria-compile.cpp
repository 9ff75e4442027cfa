/// cria-compile: compiles a config.json, the metadata of a GGUF file, or a
/// program in the llama dialect to an artifact.
#include "lowering/Compilation.h"
#include "lowering/gpu/cuda/Toolkit.h"
#include "lowering/gpu/schedules/Tuning.h"
#include "lowering/import/LedgerReport.h"
#include "lowering/import/Shrink.h"
#include "lowering/support/WriteFile.h"
#include "tools/CompilerHelp.h"
#include "tools/CompilerVersion.h"
#include "tools/ProgramFlags.h"
#include "tools/Remarks.h"
#include "tools/compile/Build.h"
#include "tools/plan/Html.h"
#include "tools/taps/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>

using namespace cria;
namespace cl = llvm::cl;
namespace json = llvm::json;

static cl::OptionCategory ofModel("Model"), ofMachines("Machines"),
    ofCompiling("Compiling"), ofTexts("Texts and reports"),
    ofDebugging("Debugging");
static cl::opt<std::string>
    input(cl::Positional, cl::desc("DIR|CONFIG.json|MODEL.gguf|PROGRAM.mlir"),
          cl::cat(ofModel));
static cl::opt<std::string>
    output("o", cl::value_desc("FILE"),
           cl::desc("File to write: the artifact, or the output of --emit or "
                    "--report"),
           cl::cat(ofCompiling));
static cl::opt<std::string> target("target", cl::init("cpu"),
                                   cl::value_desc("cpu|cuda|cpu,cuda"),
                                   cl::desc("Kind of machine: cpu, cuda, "
                                            "or both in one artifact"),
                                   cl::cat(ofMachines));
static cl::opt<std::string>
    cpu("cpu", cl::init("native"), cl::value_desc("NAMES"),
        cl::desc("CPUs to compile for: native, x86-64-v3, znver4, ... If there "
                 "are several, x86-64-v3,x86-64-v4, the runtime takes the best "
                 "code that the machine's CPU can run"),
        cl::cat(ofMachines));
static cl::opt<std::string>
    machine("machine", cl::value_desc("FILE"),
            cl::desc("Measured rates of the CPU, written by cria-bench "
                     "--save-machine. They choose schedules (default: a table "
                     "does), and give the floors in --report=plan and html"),
            cl::cat(ofMachines));
static cl::list<std::string> chip(
    "chip", cl::CommaSeparated, cl::value_desc("CHIPS"),
    cl::desc("NVIDIA chips to compile for, the oldest first: sm_80, "
             "sm_90, ... Later chips run the code, too, except code for "
             "sm_90a. If there are several, the runtime takes the latest that "
             "the device can run (default: sm_80,sm_90,sm_90a,sm_100; with "
             "--emit=ptx and sass sm_80)"),
    cl::cat(ofMachines));
static cl::list<std::string>
    cubin("cubin", cl::CommaSeparated, cl::value_desc("CHIPS"),
          cl::desc("Add machine code for NVIDIA chips, such as sm_90 (needs "
                   "ptxas)"),
          cl::cat(ofMachines));
static cl::opt<std::string> emit(
    "emit", cl::value_desc("PHASE"),
    cl::desc(
        "Print the program at a phase instead: import, fuse, linalg, "
        "tile, llvm, llvmir, asm, obj; for cuda import, fuse, linalg, "
        "tile, llvm, ptx, obj, and sass, the machine code that ptxas makes "
        "of the PTX (needs ptxas and nvdisasm)"),
    cl::cat(ofTexts));
static cl::opt<std::string>
    dumpPhases("dump-phases", cl::value_desc("DIR"),
               cl::desc("Write the program at every phase into a folder"),
               cl::cat(ofTexts));
static cl::opt<bool>
    lines("g",
          cl::desc("Add line numbers to the code: of the file 2-linalg.mlir "
                   "that --dump-phases writes (PTX: of 3-tile.mlir), or of the "
                   "text of linalg or tile that is compiled. gdb then shows "
                   "and steps through this text, and what the emulated GPU "
                   "finds names its lines"),
          cl::cat(ofTexts));
static cl::opt<bool> noLocations(
    "no-locations",
    cl::desc("For --emit=import and --dump-phases: print import without "
             "locations, for reading. Locations name the model's modules; "
             "kernels that are compiled from a text without them are named "
             "after their ops"),
    cl::cat(ofTexts));
static cl::opt<std::string> reportKind(
    "report",
    cl::value_desc("plan|html|config|families|keys|gguf-keys|schedules"),
    cl::desc(
        "Print a report. plan: the costs of each op and kernel, the "
        "instructions that the CPU multiplies with, and figures of the "
        "machine code for GPUs; html: a page with the plan and each kernel "
        "at every phase; config: the fate of each key of the config; families: "
        "the models that can be compiled, keys and gguf-keys: every known "
        "key of configs and of GGUF files, as Markdown; schedules: the sizes "
        "of the schedules for GPUs, as a file "
        "for --schedules"),
    cl::cat(ofTexts));
static cl::opt<std::string>
    measured("measured", cl::value_desc("FILE"),
             cl::desc("For --report=html: measured times of kernels, from "
                      "cria-bench --kernels --json or cria-run --profile"),
             cl::cat(ofTexts));
static cl::opt<bool> asJson("json", cl::desc("Print --report=plan as JSON"),
                            cl::cat(ofTexts));
static cl::opt<std::string>
    depth("depth", cl::value_desc("N"),
          cl::desc("For --report: tokens of the text before the counted ones "
                   "(default: 0)"),
          cl::cat(ofTexts));
static cl::list<std::string>
    allowUnknown("allow-unknown", cl::value_desc("KEY"),
                 cl::desc("Ignore this unknown key of the config, such as a or "
                          "rope_scaling.a"),
                 cl::cat(ofModel));
static cl::opt<std::string> shrink(
    "shrink", cl::value_desc("layers=N,hidden=N,vocab=N"),
    cl::desc("Write the config of a small model like this one instead, for "
             "debugging. Other sizes stay, unless they depend on these"),
    cl::cat(ofModel));
static cl::opt<std::string>
    jobs("jobs", cl::value_desc("N"),
         cl::desc("Threads that compile (default: one for each core); the "
                  "artifact does not depend on their number"),
         cl::cat(ofCompiling));
static cl::alias jobsAlias("j", cl::desc("Short for --jobs"),
                           cl::aliasopt(jobs), cl::Prefix,
                           cl::cat(ofCompiling));
static cl::opt<bool>
    printRemarks("remarks",
                 cl::desc("Print which fusions fired, why others did not, and "
                          "which ops have no fast schedule; at the end, the "
                          "kernels of each entry and what was missed"),
                 cl::cat(ofTexts));
static cl::opt<std::string>
    remarksFile("remarks-output-file", cl::value_desc("FILE"),
                cl::desc("Write the remarks as YAML, for llvm-remarkutil and "
                         "opt-viewer"),
                cl::cat(ofTexts));
static cl::list<std::string>
    taps("taps", cl::CommaSeparated, cl::ValueOptional,
         cl::value_desc("KERNELS"),
         cl::desc("Let cria-bisect read and replace the results of kernels; "
                  "with names of kernels, leave the others out"),
         cl::cat(ofDebugging));
static cl::opt<bool>
    plain("plain",
          cl::desc("Compile each op with MLIR's plain loops, without "
                   "schedules: slow, a reference for cria-bisect (cpu only)"),
          cl::cat(ofDebugging));

static const ProgramFlags programFlags(ofModel, /*later=*/true);

/// Chips that have everything kernels need. What runs on sm_100 runs on all of
/// Blackwell.
static constexpr llvm::StringRef kChips[] = {
    "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100"};

static int fail(const llvm::Twine &message) {
  llvm::errs() << "cria-compile: error: " << message << "\n";
  return 1;
}

/// Prints an error unless MLIR has already reported it.
static int fail(llvm::Error error) {
  std::string message = llvm::toString(std::move(error));
  return message.empty() ? 1 : fail(message);
}

/// Says what is wrong with the command line.
template <typename Message> static int refuse(Message message) {
  fail(std::move(message));
  return 2;
}

static bool wantsHelp(llvm::ArrayRef<const char *> arguments) {
  return llvm::any_of(arguments, [](llvm::StringRef argument) {
    return argument == "--help" || argument == "-help" || argument == "-h";
  });
}

/// Prints one line for each diagnostic, its notes below it.
static mlir::LogicalResult report(mlir::Diagnostic &diagnostic) {
  const char *kind = "";
  switch (diagnostic.getSeverity()) {
  case mlir::DiagnosticSeverity::Error:
    kind = "error: ";
    break;
  case mlir::DiagnosticSeverity::Warning:
    kind = "warning: ";
    break;
  case mlir::DiagnosticSeverity::Note:
    kind = "note: ";
    break;
  case mlir::DiagnosticSeverity::Remark:
    kind = "remark: ";
    break;
  }
  llvm::errs() << "cria-compile: " << kind;
  mlir::Location loc = diagnostic.getLocation();
  if (auto file = loc->findInstanceOf<mlir::FileLineColLoc>())
    llvm::errs() << file.getFilename().getValue() << ":" << file.getLine()
                 << ":" << file.getColumn() << ": ";
  else if (auto name = loc->findInstanceOf<mlir::NameLoc>())
    llvm::errs() << name.getName().getValue() << ": ";
  llvm::errs() << diagnostic << "\n";
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    (void)report(note);
  return mlir::success();
}

/// Sets `number` if the option is given.
static llvm::Error readNumber(const cl::opt<std::string> &option, int64_t least,
                              int64_t most, int64_t &number) {
  if (!option.getNumOccurrences())
    return llvm::Error::success();
  auto read = cria::readNumber(option.ArgStr, option.getValue(), least, most);
  if (!read)
    return read.takeError();
  number = *read;
  return llvm::Error::success();
}

/// Sets the chips, from the oldest one on.
static llvm::Error readChips(CompileOptions &options) {
  if (emit == "ptx" || emit == "sass")
    options.defaultChips = {"sm_80"};
  if (chip.empty())
    return llvm::Error::success();
  if (target == "cpu")
    return llvm::createStringError("--chip: expected --target=cuda or cpu,cuda "
                                   "with it");
  llvm::ArrayRef<llvm::StringRef> later = kChips;
  for (const std::string &name : chip) {
    later =
        later.drop_until([&](llvm::StringRef known) { return known == name; });
    if (later.empty())
      return llvm::createStringError("--chip: expected some of " +
                                     llvm::join(llvm::ArrayRef(kChips), ", ") +
                                     ", the oldest first, got " +
                                     llvm::join(chip, ","));
    later = later.drop_front();
    options.chips.push_back(name);
  }
  return llvm::Error::success();
}

/// Sets the options that change the program.
static llvm::Error readProgramOptions(ProgramOptions &options) {
  if (llvm::Error error = programFlags.read(options))
    return error;
  if (options.schedules && target == "cpu" && reportKind != "schedules")
    return llvm::createStringError("--schedules: expected --target=cuda or "
                                   "cpu,cuda with it");
  return llvm::Error::success();
}

static bool hasBoth() { return target == "cpu,cuda"; }

static llvm::Expected<CompileOptions> readOptions() {
  CompileOptions options;
  options.input = input;
  if (target.getNumOccurrences() && !hasBoth())
    options.device = target == "cuda" ? Device::Cuda : Device::Cpu;
  options.alsoForGpus = hasBoth();
  if (target != "cpu" && target != "cuda" && target != "cpu,cuda")
    return llvm::createStringError("--target=" + target +
                                   ": expected cpu, cuda or cpu,cuda");
  if (llvm::Error error = readProgramOptions(options.program))
    return error;
  int64_t before = 0;
  if (llvm::Error error = readNumber(depth, 0, 1 << 24, before))
    return error;
  int64_t count = 0;
  if (llvm::Error error = readNumber(jobs, 1, 1024, count))
    return error;
  if (!cubin.empty() && target == "cpu")
    return llvm::createStringError("--cubin: expected --target=cuda or "
                                   "cpu,cuda with it");
  options.cubins.assign(cubin.begin(), cubin.end());
  if (llvm::Error error = readChips(options))
    return error;
  options.allowUnknown.assign(allowUnknown.begin(), allowUnknown.end());
  if (cpu.getNumOccurrences())
    options.cpu = cpu;
  options.machine = machine;
  if (plain && target != "cpu")
    return llvm::createStringError("--plain: expected --target=cpu with it");
  options.plain = plain;
  options.lines = lines || reportKind == "html"; // which follows PTX by them
  if (lines && taps.getNumOccurrences())
    return llvm::createStringError("-g: expected no --taps with it");
  if (taps.getNumOccurrences())
    options.beforeTile = [](mlir::OpPassManager &pm) {
      AddTapsOptions kept;
      llvm::copy_if(taps, std::back_inserter(kept.kept),
                    [](const std::string &name) { return !name.empty(); });
      pm.addPass(createAddTaps(kept));
    };
  return options;
}

/// Writes to a file, or to standard output if its name is empty.
static int writeText(llvm::StringRef path, llvm::StringRef text) {
  if (llvm::Error error = writeFile(path.empty() ? "-" : path, text))
    return fail(std::move(error));
  return 0;
}

/// Prints the machine code that the CUDA toolkit makes of the PTX.
static int printSass(const Compilation &compilation, llvm::StringRef path) {
  const CudaImage &image = compilation.cudaImage();
  auto binary = assemble(image, image.binaries.front().chip);
  if (!binary)
    return fail(binary.takeError());
  auto text = disassemble(*binary);
  if (!text)
    return fail(text.takeError());
  return writeText(path, *text);
}

static int print(Compilation &compilation, llvm::StringRef path) {
  if (emit == "sass")
    return printSass(compilation, path);
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (llvm::Error error = compilation.print(stream, !noLocations))
    return fail(std::move(error));
  return writeText(path, text);
}

/// Writes the config that --shrink asks for.
static int writeShrunk() {
  if (!emit.empty() || !dumpPhases.empty() || !reportKind.empty())
    return fail("--shrink: expected no --emit, --dump-phases or --report with "
                "it: it writes a config.json");
  std::vector<std::string> allowed(allowUnknown.begin(), allowUnknown.end());
  llvm::Expected<ModelConfig> config = readConfig(input, allowed);
  if (!config)
    return fail(config.takeError());
  llvm::Expected<std::string> sibling = shrinkConfig(*config, shrink, allowed);
  if (!sibling)
    return fail("--shrink: " + llvm::toString(sibling.takeError()));
  return writeText(output, *sibling);
}

/// Prints the page of --report=html.
static llvm::Error printPage(const Compilation &compilation, const Plan &plan,
                             llvm::raw_ostream &stream) {
  Trail trail;
  std::vector<Device> devices;
  if (target != "cuda")
    devices.push_back(Device::Cpu);
  if (target != "cpu")
    devices.push_back(Device::Cuda);
  if (llvm::Error error = trail.follow(compilation, devices))
    return error;
  Measurements times;
  if (!measured.empty()) {
    std::vector<KernelCost> kernels(plan.kernels.begin(), plan.kernels.end());
    auto read = readMeasured(measured, kernels);
    if (!read)
      return read.takeError();
    times = std::move(*read);
  }
  // Every config has the same name, so its folder is in the title.
  namespace path = llvm::sys::path;
  llvm::StringRef folder = path::filename(path::parent_path(input));
  std::string title = (folder + (folder.empty() ? "" : "/")).str() +
                      path::filename(input).str();
  printHtml({title, compilation, plan, trail, times}, stream);
  return llvm::Error::success();
}

/// Writes the report that is asked for.
static llvm::Error writeReport(Compilation &compilation,
                               const CompileOptions &options) {
  std::string text, path = output;
  llvm::raw_string_ostream stream(text);
  int64_t before = 0;
  if (llvm::Error error = readNumber(depth, 0, 1 << 24, before))
    return error;
  if (reportKind == "families") {
    printFamilies(stream);
  } else if (reportKind == "keys") {
    printKeys(stream);
  } else if (reportKind == "gguf-keys") {
    printGgufKeys(stream);
  } else if (reportKind == "schedules") {
    auto tuning =
        simt::Tuning::readChanges(options.program.schedules.value_or(""));
    if (!tuning)
      return tuning.takeError();
    stream << tuning->json();
  } else if (reportKind == "config") {
    printLedger(compilation.ledger(), stream);
    printTotals(compilation.costs(), before, stream);
  } else {
    auto plan = planOf(compilation, target != "cuda", target != "cpu", before);
    if (!plan)
      return plan.takeError();
    if (reportKind == "html") {
      if (llvm::Error error = printPage(compilation, *plan, stream))
        return error;
    } else if (asJson) {
      stream << llvm::formatv("{0:2}", json::Value(planJson(*plan))) << "\n";
    } else {
      printPlan(*plan, stream);
    }
  }
  return writeFile(path.empty() ? "-" : path, text);
}

/// "import, fuse, ... or obj", for the phases `names`.
static std::string phaseNames(llvm::ArrayRef<Phase> names) {
  auto nameOf = [](Phase phase) {
    return phases()[static_cast<int>(phase)].name;
  };
  std::string text;
  for (Phase phase : names.drop_back())
    text += std::string(text.empty() ? "" : ", ") + nameOf(phase);
  return (text.empty() ? "" : text + " or ") + nameOf(names.back());
}

/// Checks that the program can be taken to `last` and reported on.
static llvm::Error checkPhases(const Compilation &compilation,
                               std::optional<Phase> last) {
  llvm::ArrayRef<Phase> ahead = phasesOf(compilation.device());
  ahead = ahead.drop_until(
      [&](Phase phase) { return phase == compilation.phase(); });
  if (hasBoth() && compilation.phase() >= Phase::Tile)
    return llvm::createStringError(
        "--target=cpu,cuda: expected the target that " + input +
        " is made for");
  // An object has both targets' code.
  if (hasBoth() && last && !isShared(*last) && *last != Phase::Obj)
    return llvm::createStringError("--emit=" + emit +
                                   ": expected one target with it, "
                                   "--target=cpu or --target=cuda");
  bool hasCpus =
      compilation.device() == Device::Cpu && !compilation.otherCpus().empty();
  if (hasCpus && last && !isShared(*last) && *last != Phase::Obj)
    return llvm::createStringError("--emit=" + emit +
                                   ": expected one CPU with "
                                   "it, got --cpu=" +
                                   cpu);
  if (compilation.chips().size() > 1 && last == Phase::Ptx)
    return llvm::createStringError("--emit=" + emit +
                                   ": expected one chip with it, got --chip=" +
                                   llvm::join(compilation.chips(), ","));
  if (!last || !llvm::is_contained(ahead, *last))
    return llvm::createStringError("--emit=" + emit + ": expected " +
                                   phaseNames(ahead));
  if (lines && dumpPhases.empty() && compilation.phase() < Phase::Linalg)
    return llvm::createStringError("-g: expected --dump-phases, which writes "
                                   "the text that has the lines, or a text of "
                                   "linalg or tile");
  bool isTable = llvm::is_contained(
      {"families", "keys", "gguf-keys", "schedules"}, reportKind);
  if (!reportKind.empty() && !isTable && compilation.phase() != Phase::Import)
    return llvm::createStringError("--report=" + reportKind +
                                   ": expected a config or a program at "
                                   "import");
  return llvm::Error::success();
}

/// Checks the options of reports.
static llvm::Error checkReport() {
  static constexpr llvm::StringLiteral kinds[] = {
      "plan", "html", "config", "families", "keys", "gguf-keys", "schedules"};
  if (asJson && reportKind != "plan")
    return llvm::createStringError("--json: expected --report=plan with it");
  if (!measured.empty() && reportKind != "html")
    return llvm::createStringError(
        "--measured: expected --report=html with it");
  if (reportKind.empty())
    return llvm::Error::success();
  if (!llvm::is_contained(kinds, reportKind.getValue()))
    return llvm::createStringError("--report=" + reportKind +
                                   ": expected plan, html, config, families, "
                                   "keys, gguf-keys or schedules");
  if (!emit.empty() || !dumpPhases.empty())
    return llvm::createStringError("--report: expected no --emit or "
                                   "--dump-phases with it");
  return llvm::Error::success();
}

/// Gives the context `count` threads, which live as long as the pool; 0: as
/// many as there are cores.
static void setThreads(mlir::MLIRContext &context, int64_t count,
                       std::unique_ptr<llvm::ThreadPoolInterface> &pool) {
  if (count == 0)
    return;
  context.disableMultithreading();
  if (count == 1)
    return;
  pool = std::make_unique<llvm::DefaultThreadPool>(
      llvm::hardware_concurrency(static_cast<unsigned>(count)));
  context.setThreadPool(*pool);
}

/// Takes a program to `last` and writes what is asked for.
static int finish(Compilation &compilation, Phase last,
                  mlir::TimingScope &timing) {
  std::string path = output; // lld resets command-line options.
  bool prints = !emit.empty();
  Build build({dumpPhases, !noLocations, lines});
  if (llvm::Error error = build.run(compilation, last))
    return fail(std::move(error));
  if (prints)
    return print(compilation, path);
  if (path.empty())
    return 0;
  mlir::TimingScope linking = timing.nest("link");
  auto artifact = compilation.link();
  if (!artifact)
    return fail(path + ": " + llvm::toString(artifact.takeError()));
  return writeText(path, {artifact->data(), artifact->size()});
}

/// Reads the input, compiles it to `last` and writes what is asked for.
static int compile(const CompileOptions &options, std::optional<Phase> last,
                   mlir::MLIRContext &context, Remarks &remarks) {
  mlir::DefaultTimingManager timers; // prints the report when it is destroyed
  mlir::applyDefaultTimingManagerCLOptions(timers);
  mlir::TimingScope timing = timers.getRootScope();
  mlir::TimingScope reading = timing.nest("read the input");
  auto compilation = Compilation::start(options, context);
  reading.stop();
  if (!compilation)
    return fail(compilation.takeError());
  if (llvm::Error error = checkPhases(*compilation, last))
    return fail(std::move(error));
  for (const std::string &line : compilation->warnings())
    llvm::errs() << "cria-compile: warning: " << line << "\n";
  compilation->time(timing);
  if (printRemarks)
    compilation->listen([&](Phase phase, mlir::ModuleOp program) {
      if (phase == Phase::Fuse)
        remarks.describeKernels(program);
    });
  if (reportKind.empty())
    return finish(*compilation, *last, timing);
  if (llvm::Error error = writeReport(*compilation, options))
    return fail(std::move(error));
  return 0;
}

/// Compiles in a context of its own; prints and writes remarks if asked to.
static int compile(const CompileOptions &options, std::optional<Phase> last) {
  mlir::DialectRegistry registry;
  registerCompilerDialects(registry);
  int64_t count = 0;
  if (llvm::Error error = readNumber(jobs, 1, 1024, count))
    return fail(std::move(error));
  std::unique_ptr<llvm::ThreadPoolInterface> pool;
  Remarks remarks;
  mlir::MLIRContext context(registry);
  setThreads(context, count, pool);
  context.getDiagEngine().registerHandler(report);
  bool prints = printRemarks;
  std::string file = remarksFile; // lld resets command-line options.
  if (prints || !file.empty())
    remarks.collect(context, prints);
  if (int code = compile(options, last, context, remarks))
    return code;
  if (prints)
    remarks.printSummary(llvm::errs());
  if (file.empty())
    return 0;
  if (llvm::Error error = remarks.write(file))
    return fail(std::move(error));
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  setVersionPrinter("cria-compile");
  // A write beyond the file-size limit is an error, not LLVM's crash report.
  std::signal(SIGXFSZ, SIG_IGN);
  // The hidden options of cria-opt: --mlir-timing, --mlir-print-ir-after-all,
  // --mlir-pass-pipeline-crash-reproducer=FILE, ...
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  const cl::OptionCategory *groups[] = {&ofModel, &ofMachines, &ofCompiling,
                                        &ofTexts, &ofDebugging};
  cl::HideUnrelatedOptions(groups);
  if (wantsHelp({argv + 1, argv + argc})) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    printHelp("cria-compile",
              "Compiles a Hugging Face config.json, or the one of a folder, "
              "the metadata of a GGUF file, or a program in the llama dialect, "
              "to an artifact without weights. The output of --emit=import, "
              "fuse, linalg or tile can be compiled, too.",
              "DIR|CONFIG.json|MODEL.gguf|PROGRAM.mlir", groups, stream);
    return writeText("", text);
  }
  bool isRead = cl::ParseCommandLineOptions(argc, argv, "", &llvm::errs());
  if (!isRead)
    return 2;
  if (input.empty())
    return refuse("expected a folder, a config.json, a GGUF file or a program "
                  "to compile: --help says more");
  if (llvm::sys::fs::is_directory(input))
    input += "/config.json";
  if (shrink.getNumOccurrences())
    return writeShrunk();
  auto options = readOptions();
  if (!options)
    return refuse(options.takeError());
  std::optional<Phase> last = Phase::Obj;
  if (!emit.empty())
    last = emit == "sass" ? Phase::Ptx : phaseByName(emit);
  if (llvm::Error error = checkReport())
    return refuse(std::move(error));
  if (noLocations && emit != "import" && dumpPhases.empty())
    return refuse("--no-locations: expected --emit=import or --dump-phases "
                  "with it: no other text has locations");
  if (emit.empty() && output.empty() && dumpPhases.empty() &&
      reportKind.empty())
    return refuse("expected -o, --emit, --dump-phases or --report");

  return compile(*options, last);
}
