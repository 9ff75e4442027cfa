#include "runtime/base/LibraryBeside.h"

#include <dlfcn.h>
#include <unistd.h>

namespace cria {

std::string libraryBeside(const std::string &name) {
  Dl_info info;
  auto *self = reinterpret_cast<void *>(&libraryBeside);
  if (!dladdr(self, &info) || !info.dli_fname)
    return name;
  std::string file = info.dli_fname;
  // For a program that was found in PATH, the name has no folder.
  char buffer[4096];
  ssize_t size = readlink("/proc/self/exe", buffer, sizeof(buffer));
  if (file.find('/') == std::string::npos && size > 0)
    file.assign(buffer, static_cast<size_t>(size));
  size_t slash = file.rfind('/');
  std::string folder = slash == std::string::npos ? "." : file.substr(0, slash);
  for (const char *from : {"/", "/../lib/"})
    if (std::string path = folder + from + name;
        access(path.c_str(), F_OK) == 0)
      return path;
  return name;
}

} // namespace cria
