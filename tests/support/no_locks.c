/* SPDX-License-Identifier: Apache-2.0
 * An interposed library in which file locks fail, as on network file systems without a lock service.
 * TEST_LOCK_ERRNO names the error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>

static int refuse(void) {
  const char* text = getenv("TEST_LOCK_ERRNO");
  errno = text ? atoi(text) : ENOLCK;
  return -1;
}

int flock(int descriptor, int operation) {
  (void)descriptor, (void)operation;
  return refuse();
}

static int checked_fcntl(const char* name, int descriptor, int command, void* argument) {
  int (*real)(int, int, ...);
  if (command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK ||
      command == F_OFD_SETLKW || command == F_OFD_GETLK)
    return refuse();
  *(void**)(&real) = dlsym(RTLD_NEXT, name);
  return real(descriptor, command, argument);
}

int fcntl(int descriptor, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return checked_fcntl("fcntl", descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return checked_fcntl("fcntl64", descriptor, command, argument);
}
