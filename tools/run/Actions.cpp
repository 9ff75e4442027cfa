#include "tools/run/Actions.h"

#include "tools/run/Process.h"
#include "tools/run/Run.h"

#include <algorithm>
#include <cstdio>

namespace cria {

double Actions::number(size_t i, int32_t id) const {
  // NumPy's linspace(-1, 1, bins), and the middles of two neighbours.
  double step = 2 / static_cast<double>(bins - 1);
  auto edge = [&](int64_t at) {
    return at == bins - 1 ? 1 : static_cast<double>(at) * step - 1;
  };
  int64_t bin = std::clamp<int64_t>(last - id - 1, 0, bins - 2);
  double center = (edge(bin) + edge(bin + 1)) / 2;
  return moves[i] ? 0.5 * (center + 1) * (high[i] - low[i]) + low[i] : center;
}

void Actions::finishPrompt(const Tokenizer &tokenizer,
                           std::vector<int32_t> &prompt) const {
  auto empty = tokenizer.find("\u2581");
  if (empty && prompt.back() != *empty)
    prompt.push_back(*empty);
}

/// The statistics called `name`, or the only ones if it is empty.
static std::optional<JsonCursor> statisticsOf(const JsonCursor &config,
                                              std::string name) {
  JsonCursor all = config["norm_stats"];
  if (!config.ok())
    return std::nullopt;
  std::string names;
  for (const auto &[key, value] : all.raw().items())
    names += (names.empty() ? "" : ", ") + key;
  if (name.empty() && all.raw().size() == 1)
    name = names;
  if (!all.raw().is_object() || !all.raw().contains(name)) {
    all.fail("has no statistics of --actions=" + name + "; it has " + names,
             CRIA_NOT_FOUND);
    return std::nullopt;
  }
  return all[name]["action"];
}

static std::vector<double> numbersOf(const JsonCursor &list) {
  std::vector<double> numbers;
  for (const JsonCursor &element : list.elements(/*limit=*/1024))
    numbers.push_back(element.number(-1e30, 1e30));
  return numbers;
}

static Actions readActions(const JsonCursor &config, const std::string &name) {
  Actions actions;
  auto of = statisticsOf(config, name);
  if (!of)
    return actions;
  actions.bins = config["n_action_bins"].integer(2, 1 << 20);
  actions.last = config["text_config"]["vocab_size"].integer(1, INT32_MAX) -
                 config["pad_to_multiple_of"].integer(0, INT32_MAX);
  actions.low = numbersOf((*of)["q01"]);
  actions.high = numbersOf((*of)["q99"]);
  size_t count = actions.low.size();
  actions.moves.resize(count, true);
  if (count == 0 || actions.high.size() != count)
    (*of)["q99"].expected("as many numbers as 'q01' has, " +
                          std::to_string(count));
  auto mask = of->find("mask");
  if (mask && mask->count() != count)
    mask->expected(std::to_string(count) + " booleans, as many as 'q01' has");
  else if (mask)
    for (size_t i = 0; i < count; ++i)
      actions.moves[i] = mask->element(i).boolean();
  return actions;
}

Status loadActions(Run &run) {
  if (!run.options.hasActions)
    return Status();
  Status status;
  JsonCursor config(run.config.root(), run.configPath, status);
  Actions actions = readActions(config, run.options.actions);
  if (!status.ok())
    return status;
  if (!run.tokenizer && !run.options.hasIds)
    return Status(CRIA_NOT_FOUND, "--actions needs a tokenizer, or --ids");
  run.actions = std::move(actions);
  return Status();
}

Status printActions(const Run &run) {
  auto drawn = static_cast<int64_t>(run.generated.size());
  if (drawn != run.actions->count())
    return Status(CRIA_OUT_OF_RANGE, "the text ended after " +
                                         std::to_string(drawn) +
                                         " ids, an action has " +
                                         std::to_string(run.actions->count()));
  std::string line;
  for (size_t i = 0; i < run.generated.size(); ++i) {
    char digits[32];
    snprintf(digits, sizeof(digits), "%s%.17g", i ? ", " : "[",
             run.actions->number(i, run.generated[i]));
    line += digits;
  }
  return writeOut(line + "]\n");
}

} // namespace cria
