/* Runs one program and says when it began, when it ended and how much memory it had at most.
 *
 * usage: measure FILE PROGRAM [ARGUMENT..]
 *
 * FILE receives one line of JSON. Times are of the monotonic clock, which a Python process on the
 * same machine reads with time.monotonic_ns(), so that the two can be compared.
 *
 * Why not from Python: on Linux a child's peak memory begins with that of the process it was
 * forked from, so nothing started by Python is ever seen to need less than Python does. This
 * program needs about one MiB.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (long long)t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: measure FILE PROGRAM [ARGUMENT..]\n");
    return 2;
  }
  long long began = now();
  pid_t child = fork();
  if (child < 0) {
    perror("measure: fork");
    return 2;
  }
  if (child == 0) {
    execvp(argv[2], argv + 2);
    fprintf(stderr, "measure: %s: %s\n", argv[2], strerror(errno));
    _exit(127);
  }
  int status = 0;
  struct rusage usage;
  while (wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) {
      perror("measure: wait4");
      return 2;
    }
  }
  long long ended = now();
#ifdef __APPLE__
  long peak_kib = usage.ru_maxrss / 1024;
#else
  long peak_kib = usage.ru_maxrss;
#endif
  double cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  FILE *out = fopen(argv[1], "w");
  if (out == NULL) {
    perror("measure: the result file");
    return 2;
  }
  fprintf(out,
          "{\"began_ns\":%lld,\"ended_ns\":%lld,\"peak_kib\":%ld,\"cpu_s\":%.6f,\"code\":%d}\n",
          began, ended, peak_kib, cpu, code);
  return fclose(out) == 0 ? 0 : 2;
}
