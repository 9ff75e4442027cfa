/// Generates two continuations of a prompt with the C++ API of Cria. The prompt
/// is computed once: the second text goes on from the state after it.
///
///   c++ -std=c++17 -Iruntime examples/generate.cpp -o generate
///       -Lbuild/lib -lcria -lcria-text
///   ./generate OUT.cria MODEL-FOLDER "Once upon a time" 100
#include "cria_text.hpp"

#include <cstdlib>
#include <iostream>

/// Prints `next` and the ids that follow it, at most `most`.
static void go(cria::Session &session, cria::Sampler &sampler,
               cria::Stream &text, const cria::Generation &generation,
               int32_t next, long most) {
  for (; most > 0 && !generation.ends(next); --most) {
    sampler.accept(next);
    std::cout << text.push(next) << std::flush;
    next = session.draw({next}, sampler);
  }
  std::cout << text.finish() << '\n';
}

static void generate(char **arguments) {
  std::string folder = arguments[2];
  cria::Artifact artifact(arguments[1]);
  cria::Model model(artifact, folder);
  cria::Tokenizer tokenizer(folder + "/tokenizer.json");
  cria::Generation generation(folder);
  cria::Session session(model);
  std::vector<int32_t> prompt = tokenizer.encode(arguments[3]);
  std::vector<float> logits(artifact.info().vocab_size);
  session.feed(prompt, CRIA_LOGITS_LAST, logits);
  std::vector<std::byte> state = session.save();
  for (uint64_t seed : {1, 2}) {
    cria_sampler_options options = generation.options();
    options.temperature = 0.8;
    options.seed = seed;
    cria::Sampler sampler(options, artifact.info().vocab_size);
    cria::Stream text(tokenizer);
    sampler.acceptPrompt(prompt);
    for (int32_t id : prompt)
      std::cout << text.push(id);
    session.restore(state);
    go(session, sampler, text, generation, sampler.sample(logits),
       std::atol(arguments[4]));
  }
}

int main(int argc, char **argv) {
  if (argc != 5) {
    std::cerr << "usage: generate OUT.cria MODEL-FOLDER PROMPT TOKENS\n";
    return 2;
  }
  try {
    generate(argv);
  } catch (const cria::Error &error) {
    std::cerr << "generate: error: " << cria_status_name(error.status()) << ": "
              << error.what() << '\n';
    return 1;
  }
}
