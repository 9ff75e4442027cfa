#include "lowering/Options.h"

#include "lowering/artifact/Manifest.h"
#include "lowering/gpu/schedules/Tuning.h"

using namespace mlir;
using namespace cria;
using Number = ProgramOption::Number;
using Text = ProgramOption::Text;
using Recorded = ProgramOption::Recorded;
using ReadBy = ProgramOption::ReadBy;

static llvm::Expected<std::string> readDType(StringRef argument) {
  if (argument == "auto")
    return "";
  if (argument == "f32" || argument == "f16" || argument == "bf16")
    return argument.str();
  return llvm::createStringError("--dtype=" + argument +
                                 ": expected auto, f32, f16 or bf16");
}

static llvm::Expected<std::string> readKv(StringRef argument) {
  if (argument.empty() || argument == "q8_0" || argument == "none")
    return argument.str();
  return llvm::createStringError("--kv=" + argument +
                                 ": expected q8_0 or none");
}

static llvm::Expected<std::string> readWindowCache(StringRef argument) {
  if (argument == "ring" || argument == "whole")
    return argument.str();
  return llvm::createStringError("--window-cache=" + argument +
                                 ": expected ring or whole");
}

static llvm::Expected<std::string> readSchedules(StringRef path) {
  llvm::Expected<simt::Tuning> tuning = simt::Tuning::readFile(path);
  if (!tuning)
    return tuning.takeError();
  return tuning->changes();
}

static constexpr ProgramOption kOptions[] = {
    {"dtype", "auto|f32|f16|bf16",
     "Type of weights and activations: auto (the config's), f32, f16, bf16",
     Text{&ProgramOptions::dtype, readDType}, Recorded::OfCaches,
     /*isFlag=*/false, nullptr, ReadBy::Import},
    {"max-seq", "N",
     "Positions of the KV cache (default: max_position_embeddings, at most "
     "4096)",
     Number{&ProgramOptions::maxSeq, 1, 1 << 24}, Recorded::OfCaches,
     /*isFlag=*/true, nullptr, ReadBy::Import},
    {"quantize", "FORMATS",
     "Store matrices in blocks of 32 numbers: q8_0, q4_0, fp8 or none; after a "
     "comma, embedding=FORMAT and head=FORMAT if these differ",
     Text{&ProgramOptions::quantize, nullptr}, Recorded::InFlags,
     /*isFlag=*/true, "none", ReadBy::Import},
    {"kv", "q8_0|none",
     "Store the KV cache in blocks of 32 numbers: q8_0, or none (default: the "
     "type of activations)",
     Text{&ProgramOptions::kv, readKv}, Recorded::InFlags, /*isFlag=*/true,
     "none", ReadBy::Import},
    {"window-cache", "ring|whole",
     "Caches of layers with a window: ring, as long as the window and a chunk, "
     "in pages with --batch, or whole, as long as the others (default: ring)",
     Text{&ProgramOptions::windowCache, readWindowCache}, Recorded::InFlags,
     /*isFlag=*/true, "ring", ReadBy::Both},
    {"lora-rank", "N",
     "Leave room for unmerged LoRA adapters, whose ranks add up to N at most "
     "(default: none)",
     Number{&ProgramOptions::loraRank, 0, 1 << 16}, Recorded::InFlags,
     /*isFlag=*/true, "0", ReadBy::Import},
    {"part", "NAME",
     "Part of a model that reads images: text, vision or projector, as "
     "docs/images.md lists them (default: text)",
     Text{&ProgramOptions::part, nullptr}, Recorded::InFlags, /*isFlag=*/true,
     "text", ReadBy::Import},
    {"shards", "N",
     "Split the model over so many ranks, processes of MPI: heads, MLP and "
     "vocabulary (default: 1)",
     Number{&ProgramOptions::shards, 1, 1024}, Recorded::InModel,
     /*isFlag=*/true, "1", ReadBy::Import},
    {"chunk", "N", "Most tokens of one prefill call (default: 512)",
     Number{&ProgramOptions::chunk, 1, 4096}, Recorded::InModel,
     /*isFlag=*/true, nullptr, ReadBy::Later},
    {"batch", "N",
     "Run up to N sequences together, over a KV cache of pages (default: one "
     "sequence)",
     Number{&ProgramOptions::batch, 1, 256}, Recorded::InFlags,
     /*isFlag=*/true, "0", ReadBy::Later},
    {"schedules", "FILE",
     "Sizes of the schedules for GPUs: tiles, stages, splits, as JSON. "
     "--report=schedules prints such a file (default: sizes for an H100 and an "
     "H200)",
     Text{&ProgramOptions::schedules, readSchedules}, Recorded::InFlags,
     /*isFlag=*/true, "none", ReadBy::Later},
};

ArrayRef<ProgramOption> cria::programOptions() { return kOptions; }

/// The option's key in the manifest.
static std::string keyOf(const ProgramOption &option) {
  std::string key = option.name.str();
  llvm::replace(key, '-', '_');
  return key;
}

/// What the user asked for, or nothing.
static std::optional<std::string> askedOf(const ProgramOption &option,
                                          const ProgramOptions &options) {
  if (auto *text = std::get_if<Text>(&option.value))
    return options.*text->member;
  auto number = options.*std::get<Number>(option.value).member;
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// The command line
//===----------------------------------------------------------------------===//

llvm::Expected<int64_t> cria::readNumber(StringRef option, StringRef argument,
                                         int64_t least, int64_t most) {
  // LLVM's parser of numbers would read 0x10 as 16 and 010 as 8.
  int64_t number = 0;
  if (!argument.getAsInteger(10, number) &&
      std::to_string(number) == argument && number >= least && number <= most)
    return number;
  return llvm::createStringError("--" + option + ": expected " + Twine(least) +
                                 " to " + Twine(most) + ", got " + argument);
}

llvm::Error cria::readOption(const ProgramOption &option, StringRef argument,
                             ProgramOptions &options) {
  if (auto *number = std::get_if<Number>(&option.value)) {
    auto read = readNumber(option.name, argument, number->least, number->most);
    if (!read)
      return read.takeError();
    options.*number->member = *read;
    return llvm::Error::success();
  }
  const Text &text = std::get<Text>(option.value);
  llvm::Expected<std::string> read =
      text.read ? text.read(argument) : argument.str();
  if (!read)
    return read.takeError();
  options.*text.member =
      read->empty() ? std::nullopt : std::optional(std::move(*read));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The manifest
//===----------------------------------------------------------------------===//

void cria::setFlags(Manifest &manifest, const ProgramOptions &options) {
  for (const ProgramOption &option : kOptions) {
    auto asked = askedOf(option, options);
    if (!option.isFlag || !asked ||
        (option.otherwise && *asked == option.otherwise))
      continue;
    if (auto *number = std::get_if<Number>(&option.value))
      manifest.setFlag(keyOf(option), *(options.*number->member));
    else
      manifest.setFlag(keyOf(option), *asked);
  }
}

/// The value that the program was made with: an integer, a text, or null if the
/// manifest has none.
static Attribute madeWith(const ProgramOption &option,
                          const Manifest &manifest) {
  DictionaryAttr model = manifest.model();
  if (option.recorded == Recorded::InFlags)
    return manifest.flags().get(keyOf(option));
  bool hasCaches = model.contains("dtype");
  return option.recorded == Recorded::OfCaches && !hasCaches
             ? Attribute()
             : model.get(keyOf(option));
}

llvm::Error cria::expectMade(StringRef flag, std::optional<StringRef> asked,
                             StringRef made, StringRef input) {
  if (!asked || *asked == made)
    return llvm::Error::success();
  return llvm::createStringError("--" + flag + "=" + *asked + ": expected " +
                                 made + ", which " + input + " is made for");
}

/// Checks that the program was made with what the user asked for.
static llvm::Error checkOption(const ProgramOption &option,
                               const ProgramOptions &options, StringRef input,
                               const Manifest &manifest) {
  auto asked = askedOf(option, options);
  Attribute value = madeWith(option, manifest);
  if (!asked || (!value && !option.otherwise))
    return llvm::Error::success();
  std::string made = option.otherwise ? option.otherwise : "";
  if (auto number = asInteger(value))
    made = std::to_string(*number);
  else if (auto text = dyn_cast_or_null<StringAttr>(value))
    made = text.str();
  return expectMade(option.name, StringRef(*asked), made, input);
}

static void copyOption(const ProgramOption &option, const ProgramOptions &from,
                       ProgramOptions &to) {
  if (auto *text = std::get_if<Text>(&option.value))
    to.*text->member = from.*text->member;
  else
    to.*std::get<Number>(option.value).member =
        from.*std::get<Number>(option.value).member;
}

/// Sets an option to what the manifest says.
static llvm::Error takeFrom(const Manifest &manifest,
                            const ProgramOption &option, StringRef input,
                            ProgramOptions &options) {
  Attribute made = madeWith(option, manifest);
  if (auto *text = std::get_if<Text>(&option.value)) {
    auto value = dyn_cast_or_null<StringAttr>(made);
    options.*text->member = value ? std::optional(value.str()) : std::nullopt;
    return llvm::Error::success();
  }
  const Number &number = std::get<Number>(option.value);
  std::optional<int64_t> value = asInteger(made);
  options.*number.member = value;
  if (!value || (*value >= number.least && *value <= number.most))
    return llvm::Error::success();
  return llvm::createStringError(input + ": expected '" + keyOf(option) +
                                 "' in 'cria.manifest' to be " +
                                 Twine(number.least) + " to " +
                                 Twine(number.most) + ", got " + Twine(*value));
}

llvm::Error cria::checkModel(const ProgramOptions &options, StringRef input,
                             const Manifest &manifest) {
  for (const ProgramOption &option : kOptions)
    if (option.recorded != Recorded::InFlags)
      if (llvm::Error error = checkOption(option, options, input, manifest))
        return error;
  return llvm::Error::success();
}

llvm::Error cria::resumeOptions(ProgramOptions &options, StringRef input,
                                const Manifest &manifest, bool isImport) {
  ProgramOptions next;
  for (const ProgramOption &option : kOptions) {
    if (isImport && option.readBy == ReadBy::Later &&
        askedOf(option, options)) {
      copyOption(option, options, next);
      continue;
    }
    if (llvm::Error error = checkOption(option, options, input, manifest))
      return error;
    if (option.readBy != ReadBy::Import)
      if (llvm::Error error = takeFrom(manifest, option, input, next))
        return error;
  }
  options = std::move(next);
  return llvm::Error::success();
}
