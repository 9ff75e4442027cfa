/* LD_PRELOAD this: every child of fork() dies of an illegal instruction. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

pid_t fork(void) {
  pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
  pid_t child = real();
  if (child == 0) {
    signal(SIGILL, SIG_DFL);
    raise(SIGILL);
  }
  return child;
}
