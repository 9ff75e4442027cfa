/// The command line of cria-run.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/base/Status.h"
#include "runtime/cria.h"
#include "runtime/device/Backend.h"
#include "runtime/device/Device.h"
#include "runtime/device/Sampler.h"
#include "runtime/text/GenerationKeys.h"
#include "runtime/text/tokenizer/StopStrings.h"
#include "runtime/text/tokenizer/Text.h"
#include "tools/CommandLine.h"
#include "tools/Compile.h"
#include "tools/WeightOptions.h"
#include "tools/run/Devices.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// The command line.
struct RunOptions {
  std::string artifact, compile, weights, prompt, promptFile, ids,
      device = "auto", cpu;
  std::string logits, hidden, embedding, pooling = "mean";
  std::string profile, machine, prompts;
  std::string system, source, sourceIds, prefixEmbeddings;
  WeightOptions binding;
  std::vector<std::string> allowUnknown, stops, images, parts;
  std::string patches, actions;
  std::optional<std::string> jsonSchema, grammar, regex;
  std::optional<double> temperature, topP, minP, repetitionPenalty,
      presencePenalty, frequencyPenalty;
  std::optional<int64_t> maxTokens, topK, penaltyWindow, logProbs;
  std::optional<uint64_t> randomWeights;
  int64_t draftRows = 0;
  std::optional<uint64_t> seed; // set when the first id is drawn, at the latest
  int threads = 0;
  bool hasPrompt = false, hasIds = false, printIds = false, chat = false,
       quiet = false, hasSource = false, hasSourceIds = false,
       hasEmbedding = false, normalize = false, hasActions = false;

  /// How many results other than the text of a prompt go to stdout.
  int resultsOnStdout() const {
    bool printsEmbedding =
        hasEmbedding && (embedding.empty() || embedding == "-");
    return printIds + bool(logProbs) + (logits == "-") + (hidden == "-") +
           printsEmbedding + (profile == "-") + chat + !prompts.empty() +
           hasActions + (patches == "-");
  }
};

/// Options for the input of a model's encoder.
inline void addSource(CLI::App &app, RunOptions &options) {
  HelpGroup group(app, "Prompt");
  auto *source =
      app.add_option("--source", options.source, "text for the model's encoder")
          ->expected(0, 1);
  app.add_option("--source-ids", options.sourceIds,
                 "token ids for the model's encoder")
      ->expected(0, 1)
      ->excludes(source);
}

/// --chat, which excludes `others`, and the options that belong to it.
inline void addChat(CLI::App &app, RunOptions &options,
                    const std::vector<CLI::Option *> &others) {
  HelpGroup group(app, "Chat");
  auto *chat =
      app.add_flag("-i,--chat", options.chat,
                   "chat by the chat template of --weights: each line on stdin "
                   "is a message; /help lists commands, /exit ends, Ctrl-C "
                   "stops a reply");
  for (CLI::Option *other : others)
    chat->excludes(other);
  app.add_option("--system", options.system, "system message of the chat")
      ->needs(chat);
}

/// --profile and the options that belong to it.
inline CLI::Option *addProfile(CLI::App &app, RunOptions &options) {
  HelpGroup group(app, "Outputs of a prompt");
  auto *profile = app.add_option(
      "--profile", options.profile,
      "file for the times of all steps and their kernels: a Chrome trace, for "
      "Perfetto");
  profile->type_name("FILE");
  app.add_option("--machine", options.machine,
                 "rates of the machine, written by cria-bench --save-machine: "
                 "--profile then has each kernel's floor")
      ->type_name("FILE")
      ->needs(profile);
  return profile;
}

/// Options that say how ids are drawn.
inline void addSampling(CLI::App &app, RunOptions &options) {
  HelpGroup group(app, "Sampling");
  app.add_option("--temperature", options.temperature,
                 "divides logits; 0: greedy")
      ->check(anyNumber);
  app.add_option("--top-k", options.topK, "sample from the K likeliest; 0: all")
      ->check(wholeNumber<int64_t>(0, INT64_MAX));
  app.add_option("--top-p", options.topP,
                 "sample from the likeliest whose probabilities add up to P")
      ->check(anyNumber);
  app.add_option("--min-p", options.minP,
                 "sample from ids with at least P times the best probability")
      ->check(anyNumber);
  app.add_option("--repetition-penalty", options.repetitionPenalty,
                 "weakens the ids that the text has already: divides their "
                 "logits, or multiplies those below 0 (default 1: not)")
      ->check(anyNumber);
  app.add_option("--presence-penalty", options.presencePenalty,
                 "taken from the logits of ids that were drawn before")
      ->check(anyNumber);
  app.add_option("--frequency-penalty", options.frequencyPenalty,
                 "the same, for each time that an id was drawn")
      ->check(anyNumber);
  app.add_option("--penalty-window", options.penaltyWindow,
                 "the last N ids count for penalties (default 0: all)")
      ->check(wholeNumber<int64_t>(0, INT64_MAX));
  app.add_option("--seed", options.seed,
                 "seed of sampling (default: another one each time)")
      ->check(wholeNumber<uint64_t>(0, UINT64_MAX));
}

/// Options for the form of the text.
inline void addGrammar(CLI::App &app, RunOptions &options) {
  HelpGroup group(app, "Form of the text");
  auto *schema = app.add_option("--json-schema", options.jsonSchema,
                                "make the text JSON of this schema: a file, or "
                                "the schema itself, which begins with {")
                     ->type_name("FILE|TEXT");
  auto *grammar = app.add_option("--grammar", options.grammar,
                                 "make the text one of this grammar, in "
                                 "llama.cpp's notation GBNF")
                      ->type_name("FILE")
                      ->excludes(schema);
  app.add_option("--regex", options.regex,
                 "make the text match this regular expression as a whole")
      ->excludes(schema)
      ->excludes(grammar);
}

/// Options for the prompt; returns them.
inline std::vector<CLI::Option *> addPrompt(CLI::App &app,
                                            RunOptions &options) {
  HelpGroup group(app, "Prompt");
  auto *prompt =
      app.add_option("-p,--prompt", options.prompt, "text to continue")
          ->expected(0, 1); // --prompt= is the empty text
  auto *ids =
      app.add_option("--ids", options.ids, "token ids to continue: 1,2,3")
          ->expected(0, 1)
          ->excludes(prompt);
  auto *file = app.add_option("-f,--file", options.promptFile,
                              "file of the text to continue; -: standard input")
                   ->type_name("FILE")
                   ->excludes(prompt)
                   ->excludes(ids);
  auto *prefix = app.add_option(
      "--prefix-embeddings", options.prefixEmbeddings,
      "NumPy file of embeddings (positions, hidden) that precede the prompt "
      "and its begin token");
  prefix->type_name("FILE");
  return {prompt, ids, file, prefix};
}

/// Options for images in the prompt; returns them.
inline std::vector<CLI::Option *> addImages(CLI::App &app,
                                            RunOptions &options) {
  HelpGroup group(app, "Images");
  auto *image = app.add_option(
      "--image", options.images,
      "PNG or JPEG file that the model sees, where the prompt has the image's "
      "token, such as <image>; repeatable");
  image->type_name("FILE")->allow_extra_args(false);
  app.add_option("--part", options.parts,
                 "artifact of cria-compile --part for the images; repeatable "
                 "(default: compiled as a folder's text is)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--patches", options.patches,
                 "NumPy file for the patches that the vision towers read, "
                 "float32 (patches, numbers)")
      ->type_name("FILE")
      ->needs(image);
  auto *actions = app.add_option(
      "--actions", options.actions,
      "print the numbers of the action that OpenVLA draws, as JSON, by the "
      "statistics of this dataset in the config (default: of the only one)");
  actions->expected(0, 1)->type_name("DATASET")->needs(image);
  return {image, actions};
}

/// --prompts, which excludes `others`.
inline CLI::Option *addPrompts(CLI::App &app, RunOptions &options,
                               const std::vector<CLI::Option *> &others) {
  HelpGroup group(app, "Many prompts");
  auto *prompts =
      app.add_option("--prompts", options.prompts,
                     "file of prompts, a line each, to go on from side by "
                     "side, in an artifact "
                     "of cria-compile --batch: prints a line of JSON for each");
  prompts->type_name("FILE");
  for (CLI::Option *other : others)
    prompts->excludes(other);
  app.add_option("--draft-rows", options.draftRows,
                 "try tokens that may come next beside those that do, up to "
                 "this number of rows in a step: texts that repeat themselves "
                 "take fewer steps, and stay the same")
      ->check(wholeNumber<int64_t>(0, INT32_MAX))
      ->needs(prompts);
  return prompts;
}

/// Options for outputs of the prompt; returns them.
inline std::vector<CLI::Option *> addOutputs(CLI::App &app,
                                             RunOptions &options) {
  HelpGroup group(app, "Outputs of a prompt");
  auto *logits = app.add_option(
      "--logits", options.logits,
      "NumPy file for the prompt's logits, float32 (tokens, vocab)");
  auto *hidden = app.add_option(
      "--hidden", options.hidden,
      "NumPy file for the prompt's hidden states, after the last norm, float32 "
      "(tokens, hidden)");
  auto *embedding = app.add_option(
      "--embedding", options.embedding,
      "NumPy file for the prompt's embedding, float32 (hidden): its hidden "
      "states, pooled; without FILE it is printed, as JSON. Nothing is "
      "generated unless --max-tokens says so");
  embedding->expected(0, 1);
  for (CLI::Option *output : {logits, hidden, embedding})
    output->type_name("FILE");
  app.add_option("--pooling", options.pooling,
                 "how --embedding pools (default mean)")
      ->type_name("mean|last|first")
      ->needs(embedding);
  app.add_flag("--normalize", options.normalize,
               "divide --embedding by its Euclidean length")
      ->needs(embedding);
  return {logits, hidden, embedding};
}

/// Options about generation_config.json.
inline void addGeneration(CLI::App &app, RunOptions &options) {
  HelpGroup group(app, "Sampling");
  app.add_option("--allow-unknown", options.allowUnknown,
                 "ignore this key of generation_config.json")
      ->type_name("KEY");
  app.add_flag_callback(
         "--generation-keys",
         [] {
           fputs(generationKeysText().c_str(), stdout);
           throw CLI::Success();
         },
         "print every known key of generation_config.json, as Markdown")
      ->trigger_on_parse();
}

/// Declares the options on `app`; parsing then fills `options`.
inline void addOptions(CLI::App &app, RunOptions &options) {
  app.add_option("-m,--model,MODEL", options.artifact,
                 "an artifact; or a folder from Hugging Face, or file.gguf, "
                 "which is compiled first, once, and has the weights")
      ->type_name("PATH")
      ->required();
  app.add_option("--compile", options.compile,
                 "options of cria-compile for a folder or file.gguf: "
                 "--compile='--quantize=q8_0 --max-seq=8192'")
      ->type_name("OPTIONS");
  auto *weights = app.add_option(
      "--weights", options.weights,
      "folder of *.safetensors, tokenizer.json, generation_config.json; or one "
      "file.gguf");
  auto *random = app.add_option("--random-weights", options.randomWeights,
                                "draw weights from this seed instead")
                     ->check(wholeNumber<uint64_t>(0, UINT64_MAX));
  std::vector<CLI::Option *> notChat = addPrompt(app, options);
  std::vector<CLI::Option *> images = addImages(app, options);
  images[0]->excludes(notChat.back()); // rows in front move the images' places
  notChat.push_back(images[1]);
  addSource(app, options);
  images[1]->excludes(
      app.add_option("-n,--max-tokens", options.maxTokens,
                     "most tokens to generate (default: the limit of "
                     "generation_config.json, or the end of the context)")
          ->check(wholeNumber<int64_t>(0, INT64_MAX)));
  app.add_option("--stop", options.stops,
                 "end the text before this one; several may be given (default: "
                 "stop_strings of generation_config.json)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  addSampling(app, options);
  addGrammar(app, options);
  app.add_option("--device", options.device,
                 "device to run on; auto: the GPU if possible; cuda:1: the "
                 "second of several GPUs")
      ->check(anyDevice)
      ->type_name("auto|cpu|cuda|emulated");
  app.add_flag_callback(
         "--list-devices",
         [] {
           listDevices();
           throw CLI::Success();
         },
         "print the devices of this machine and their memory")
      ->trigger_on_parse();
  app.add_option("--cpu", options.cpu,
                 "run the code for this CPU, one of those that cria-inspect "
                 "lists (default: the best that runs here)")
      ->type_name("NAME");
  // Of earlier versions, which kept code that the CUDA driver now keeps.
  app.add_flag("--no-cache")->group("");
  app.add_option("-t,--threads", options.threads,
                 "number of threads; 0, the default: one for each core, within "
                 "the quota of the process's control groups")
      ->check(wholeNumber(0, 1024));
  notChat.push_back(
      app.add_flag("--print-ids", options.printIds,
                   "print the generated ids on one line instead of text"));
  notChat.push_back(
      app.add_option("--logprobs", options.logProbs,
                     "print a line of JSON for each generated id instead of "
                     "text: its log-probability, and the N likeliest ids")
          ->type_name("N")
          ->check(wholeNumber<int64_t>(0, 1024)));
  for (CLI::Option *output : addOutputs(app, options))
    notChat.push_back(output);
  app.add_flag("-q,--quiet", options.quiet,
               "print no warnings, progress and statistics");
  addWeightOptions(app, options.binding);
  addCacheOption(app, options.binding);
  addGeneration(app, options);
  auto *prompts = addPrompts(app, options, notChat);
  prompts->excludes(images[0]);
  prompts->excludes(addProfile(app, options));
  notChat.push_back(prompts);
  addChat(app, options, notChat);
  weights->type_name("DIR");
  random->type_name("SEED");
  app.footer("Sampling defaults come from generation_config.json; without that "
             "file, sampling is greedy. stdout receives the text, or instead "
             "the ids of --print-ids or a file called -. Everything else goes "
             "to stderr.");
}

/// The pooling called `name`; nothing if there is none.
inline std::optional<cria_pooling> poolingNamed(const std::string &name) {
  if (name == "mean")
    return CRIA_POOLING_MEAN;
  if (name == "last")
    return CRIA_POOLING_LAST;
  if (name == "first")
    return CRIA_POOLING_FIRST;
  return std::nullopt;
}

/// `sampling`, with what options say in place of it.
inline SamplerOptions samplerOptions(const RunOptions &options,
                                     SamplerOptions sampling) {
  auto set = [](auto &value, const auto &option) {
    value = option.value_or(value);
  };
  set(sampling.temperature, options.temperature);
  set(sampling.topK, options.topK);
  set(sampling.topP, options.topP);
  set(sampling.minP, options.minP);
  set(sampling.repetitionPenalty, options.repetitionPenalty);
  set(sampling.presencePenalty, options.presencePenalty);
  set(sampling.frequencyPenalty, options.frequencyPenalty);
  set(sampling.penaltyWindow, options.penaltyWindow);
  set(sampling.seed, options.seed);
  return sampling;
}

/// INVALID_ARGUMENT with the value of the first option out of range.
inline Status checkOptions(const RunOptions &options) {
  std::error_code ignored;
  if (!std::filesystem::exists(options.artifact, ignored))
    return Status(CRIA_NOT_FOUND,
                  options.artifact + ": no such file or folder");
  if (!options.compile.empty() && !isModel(options.artifact))
    return Status(
        CRIA_INVALID_ARGUMENT,
        "--compile: expected a folder or a file.gguf to compile, got " +
            options.artifact);
  if (options.weights.empty() && !options.randomWeights)
    return Status(CRIA_INVALID_ARGUMENT,
                  "expected --weights=DIR or --random-weights=SEED");
  if (options.chat && options.weights.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "--chat needs --weights=DIR, for tokenizer and template");
  if (!options.parts.empty() && options.images.empty() && !options.chat)
    return Status(CRIA_INVALID_ARGUMENT, "--part needs --image or --chat");
  if (!poolingNamed(options.pooling))
    return Status(CRIA_INVALID_ARGUMENT, "--pooling is '" + options.pooling +
                                             "', expected mean, last or first");
  if (options.resultsOnStdout() > 1)
    return Status(
        CRIA_INVALID_ARGUMENT,
        "standard output takes one of --print-ids, --logprobs, --logits=-, "
        "--hidden=-, --embedding, --profile=-, --patches=-, --actions, "
        "--prompts and --chat's replies, got several");
  if (size_t bad = findInvalidUtf8(options.system); bad != std::string::npos)
    return Status(CRIA_INVALID_ARGUMENT,
                  "--system is not UTF-8 at byte " + std::to_string(bad));
  if (auto stops = StopStrings::create(options.stops); !stops.ok())
    return Status(stops.status().code(), "--stop: " + stops.status().message());
  return samplerOptions(options, SamplerOptions()).check();
}

/// The weights that checked options ask for.
inline WeightSource weightSource(const RunOptions &options) {
  WeightSource source =
      weightSource(options.randomWeights ? "" : options.weights,
                   options.randomWeights.value_or(0), options.binding);
  if (options.quiet)
    source.progress = {};
  return source;
}

/// The device that checked options ask for.
inline DeviceOptions deviceOptions(const RunOptions &options) {
  return *deviceNamed(options.device);
}

/// Reads the command line. Returns the exit code if there is nothing left to
/// do.
inline std::optional<int> parseOptions(int argc, char **argv,
                                       RunOptions &options) {
  CLI::App app{"Generates text with a compiled model."};
  addOptions(app, options);
  if (auto code = parseCommandLine(app, "cria-run", argc, argv))
    return code;
  if (isModel(options.artifact) && options.weights.empty() &&
      !options.randomWeights)
    options.weights = options.artifact;
  options.hasPrompt = app.count("--prompt") + app.count("--file") > 0;
  options.hasIds = app.count("--ids") > 0;
  options.hasSource = app.count("--source") > 0;
  options.hasSourceIds = app.count("--source-ids") > 0;
  options.hasEmbedding = app.count("--embedding") > 0;
  options.hasActions = app.count("--actions") > 0;
  return std::nullopt;
}

} // namespace cria
