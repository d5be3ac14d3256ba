/*
 * The other side of the pins, for tests in the virtual machine:
 *   edges HZ COUNT FILE [FILE]   pulls a simulated line up and down, or two of them as a turning encoder does, with
 *                                at least the time of HZ between two edges, on the first processor
 *   duty FILE MS                 prints the share of the time for which a line is high
 *   pty FILE                     a serial line: prints its name, then says a file's lines again and again
 *   follow CHIP LINE COUNT       waits for edges of a line, prints how late each was read, in ns
 *   stamp COUNT                  reads times (seconds.nanoseconds), prints how late each line arrived, in ns
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/gpio.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int edges(long hz, long count, int files, char **paths) {
  int file[2], level[2] = {0, 0};
  for (int i = 0; i < files; i++) {
    file[i] = open(paths[i], O_WRONLY);
    if (file[i] < 0) return perror(paths[i]), 1;
  }
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  sched_setaffinity(0, sizeof first, &first);
  long back = count < 0;
  for (long n = 0; n < labs(count); n++) {
    int i = files == 2 ? (n + back) % 2 : 0;
    level[i] = !level[i];
    const char *text = level[i] ? "pull-up" : "pull-down";
    if (pwrite(file[i], text, strlen(text), 0) < 0) return perror("write"), 1;
    for (long until = now() + (hz > 0 ? 1000000000L / hz : 0); now() < until;) {}
  }
  return 0;
}

static int duty(const char *path, long ms) {
  int file = open(path, O_RDONLY);
  if (file < 0) return perror(path), 1;
  long begin = now(), last = begin, high = 0;
  char level = '0';
  while (last - begin < ms * 1000000L) {
    long time = now();
    if (level == '1') high += time - last;
    last = time;
    if (pread(file, &level, 1, 0) != 1) return perror("read"), 1;
  }
  printf("%f\n", (double)high / (last - begin));
  return 0;
}

static int pty(const char *path) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master)) return perror("pty"), 1;
  puts(ptsname(master));
  fflush(stdout);
  for (;;) {
    FILE *text = fopen(path, "r");
    char line[256];
    if (!text) return perror(path), 1;
    while (fgets(line, sizeof line, text)) {
      if (write(master, line, strlen(line)) < 0) return 1;
      usleep(50000);
    }
    fclose(text);
  }
}

static int follow(const char *path, int offset, long count) {
  int chip = open(path, O_RDONLY);
  struct gpio_v2_line_request request = {.offsets = {offset}, .num_lines = 1, .consumer = "helper"};
  request.config.flags =
      GPIO_V2_LINE_FLAG_INPUT | GPIO_V2_LINE_FLAG_EDGE_RISING | GPIO_V2_LINE_FLAG_EDGE_FALLING;
  if (chip < 0 || ioctl(chip, GPIO_V2_GET_LINE_IOCTL, &request) < 0) return perror(path), 1;
  long *late = calloc(count, sizeof *late), read_so_far = 0;
  struct sched_param priority = {.sched_priority = 9};
  sched_setscheduler(0, SCHED_FIFO, &priority);
  struct pollfd asked = {.fd = request.fd, .events = POLLIN};
  while (read_so_far < count && poll(&asked, 1, 10000) > 0) {
    struct gpio_v2_line_event events[16];
    long bytes = read(request.fd, events, sizeof events), time = now();
    for (long i = 0; i < bytes / (long)sizeof *events && read_so_far < count; i++) {
      late[read_so_far++] = time - (long)events[i].timestamp_ns;
    }
  }
  for (long i = 0; i < read_so_far; i++) printf("%ld\n", late[i]);
  return 0;
}

static int stamp(long count) {
  char line[128];
  while (count-- > 0 && fgets(line, sizeof line, stdin)) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long seconds = 0, ns = 0;
    if (sscanf(line, "%ld.%ld", &seconds, &ns) == 2) {
      printf("%ld\n", (now.tv_sec - seconds) * 1000000000L + now.tv_nsec - ns);
    }
  }
  return 0;
}

int main(int count, char **args) {
  if (count > 4 && !strcmp(args[1], "edges")) return edges(atol(args[2]), atol(args[3]), count - 4, args + 4);
  if (count == 4 && !strcmp(args[1], "duty")) return duty(args[2], atol(args[3]));
  if (count == 5 && !strcmp(args[1], "follow")) return follow(args[2], atoi(args[3]), atol(args[4]));
  if (count == 3 && !strcmp(args[1], "pty")) return pty(args[2]);
  if (count == 3 && !strcmp(args[1], "stamp")) return stamp(atol(args[2]));
  return 2;
}
