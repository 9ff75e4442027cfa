#include "test/fuzz/Fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace cria::fuzz {

Folder::Folder() {
  char name[] = "/dev/shm/cria-fuzz-XXXXXX";
  require(mkdtemp(name), "mkdtemp");
  folder = name;
}

Folder::~Folder() { std::filesystem::remove_all(folder); }

std::string Folder::write(const std::string &name,
                          std::string_view bytes) const {
  std::string file = folder + "/" + name;
  std::ofstream stream(file, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file;
}

void require(bool holds, const char *what) {
  if (holds)
    return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

} // namespace cria::fuzz
