/* SPDX-License-Identifier: Apache-2.0
 * An interposed library in which a rank runs out of memory, or never returns, at a moment that a test chooses:
 * when the file named by TEST_NO_MEMORY appears (under MPI, with a dot and the rank's number after the name). The
 * first allocation that takes the file away fails; where the file says "hang", it sleeps for ever instead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void* aligned_alloc(size_t alignment, size_t size) {
  static void* (*real)(size_t, size_t);
  static char name[4096];
  if (!real) {
    const char* prefix = getenv("TEST_NO_MEMORY");
    const char* rank = getenv("OMPI_COMM_WORLD_RANK");
    snprintf(name, sizeof name, "%s%s%s", prefix ? prefix : "", rank ? "." : "", rank ? rank : "");
    *(void**)(&real) = dlsym(RTLD_NEXT, "aligned_alloc");
  }
  const int file = open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return real(alignment, size);
  char way = 'f';
  if (read(file, &way, 1) != 1) way = 'f';
  close(file);
  if (unlink(name) != 0) return real(alignment, size); /* another rank was first */
  while (way == 'h') pause();
  return NULL;
}
